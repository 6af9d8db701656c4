import {
  NodeOperationError,
  type IDataObject,
  type IExecuteFunctions,
  type IHookFunctions,
} from 'n8n-workflow';

/** Return the fields that have a value. */
export function given(fields: IDataObject): IDataObject {
  const isGiven = ([, value]: [string, unknown]) =>
    value !== undefined && value !== null && value !== '';
  return Object.fromEntries(Object.entries(fields).filter(isGiven));
}

/** Return the parts of a text with commas, or undefined for none. An expression may be a list. */
export function split(value: unknown): string[] | undefined {
  const parts = Array.isArray(value) ? value.map(String) : String(value ?? '').split(',');
  const texts = parts.map((part) => part.trim()).filter(Boolean);
  return texts.length > 0 ? texts : undefined;
}

/** Return the object of a JSON parameter, or undefined for none. */
export function parseObject(
  context: IExecuteFunctions | IHookFunctions,
  name: string,
  value: unknown,
  itemIndex?: number,
): IDataObject | undefined {
  let parsed = value;
  if (typeof value === 'string' && value.trim()) {
    try {
      parsed = JSON.parse(value);
    } catch (error) {
      const text = `${name} is not JSON: ${(error as Error).message}`;
      throw new NodeOperationError(context.getNode(), text, { itemIndex });
    }
  }
  if (parsed === undefined || parsed === null || parsed === '') return undefined;
  if (typeof parsed !== 'object' || Array.isArray(parsed)) {
    const text = `${name} is no JSON object: write {"name": "value"}`;
    throw new NodeOperationError(context.getNode(), text, { itemIndex });
  }
  return Object.keys(parsed).length > 0 ? (parsed as IDataObject) : undefined;
}
