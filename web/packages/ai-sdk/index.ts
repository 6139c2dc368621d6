/** Connects `useChat` of the AI SDK to a stage. */

export { ApiError } from "../../src/api/transport.ts";
export { ClientError } from "../../src/client/failure.ts";
export type { StageOptions } from "../../src/door/stage.ts";
export type { TurnMetadata } from "./mapping.ts";
export { type MessageBody, SteplineTransport, steplineTransport } from "./transport.ts";
