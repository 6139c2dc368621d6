/** Connects clients of AG-UI to a stage. */

export { ApiError } from "../../src/api/transport.ts";
export { ClientError } from "../../src/client/failure.ts";
export { SteplineAgent, type SteplineAgentOptions } from "./agent.ts";
export type { Verdict } from "./run.ts";
export type { TurnState, TurnStatus } from "./state.ts";
