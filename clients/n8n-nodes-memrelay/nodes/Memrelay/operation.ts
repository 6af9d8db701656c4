import type { IDataObject, IExecuteFunctions } from 'n8n-workflow';
import type { Call } from '../request';

/** An operation of the node. */
export interface Operation {
  /** Whether it changes the memory, so that a repeated call must have one effect. */
  changes: boolean;
  /** Return the call for an item of the input. */
  makeCall(context: IExecuteFunctions, itemIndex: number): Call;
  /** Return the items of the output. By default, the answer is one item. */
  read?(answer: IDataObject): IDataObject[];
}
