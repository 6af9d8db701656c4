/** Types of the methods, made from those of the OpenAPI document. */

import type { components, operations } from "./openapi.js";

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The error of a request (RFC 9457). */
export type Problem = Partial<components["schemas"]["Problem"]> & { detail?: string };

/** A write that a policy of the store holds for review, or has dropped. */
export type Stopped = { guid: string; review: "pending" } | { dropped: string };

type Content<T> = T extends { content: { "application/json": infer Body } } ? Body : unknown;
type PathOf<O> = O extends { parameters: { path: infer P } } ? Omit<P, "uid"> : unknown;
type QueryOf<O> = O extends { parameters: { query?: infer Q } }
  ? [Q] extends [undefined]
    ? unknown
    : { [K in keyof Q]: K extends "filter" ? Q[K] | Record<string, unknown> : Q[K] }
  : unknown;
type BodyOf<O> = O extends { requestBody?: infer B }
  ? [NonNullable<B>] extends [never]
    ? unknown
    : Content<NonNullable<B>>
  : unknown;
type IsOptional<T> = Record<never, never> extends T ? true : false;
// A key without the scope `read` gets only ids: an object of which each field may be missing.
type WithoutIds<T> = T extends object ? (IsOptional<T> extends true ? never : T) : T;
type Whole<T> = [WithoutIds<T>] extends [never] ? T : WithoutIds<T>;
type Answer<O> = O extends { responses: infer R }
  ? Whole<{ [Code in keyof R & (200 | 201)]: Content<R[Code]> }[keyof R & (200 | 201)]>
  : never;

/** The input of an operation, such as `Input<"records.create">`. */
export type Input<Name extends keyof operations> = PathOf<operations[Name]> &
  QueryOf<operations[Name]> &
  BodyOf<operations[Name]>;

/** The output of an operation. It is undefined if the server answers without a body. */
export type Output<Name extends keyof operations> = [Answer<operations[Name]>] extends [never]
  ? undefined
  : Answer<operations[Name]>;

/** Options of one call. */
export interface CallOptions {
  /** The pipeline, by default that of the client. */
  pipeline?: string;
  /** Repeating a change with its key has no second effect. By default each change has its own. */
  idempotencyKey?: string;
  /** The versions of which the record must have one. */
  ifVersion?: string | string[];
  /** Ends the call. */
  signal?: AbortSignal;
}

type Method<Name extends keyof operations> =
  IsOptional<Input<Name>> extends true
    ? (input?: Input<Name>, options?: CallOptions) => Promise<Output<Name>>
    : (input: Input<Name>, options?: CallOptions) => Promise<Output<Name>>;
type NounOf<Name> = Name extends `${infer Noun}.${string}` ? Noun : never;
type Verbs<Noun extends string> = {
  [Name in keyof operations as Name extends `${Noun}.${infer Verb}` ? Verb : never]: Method<Name>;
};

/** All operations by noun and verb: `memory.records.create`. */
export type Nouns = { [Noun in NounOf<keyof operations>]: Verbs<Noun> };
