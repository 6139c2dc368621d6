/**
 * The thread: the durable events and the running text of one conversation, ready to render.
 *
 * Values are plain, read-only and shared: a fold that changes one round returns new objects on the way to it and the
 * same objects everywhere else. A component therefore renders again if, and only if, its own object is another one.
 *
 * Rounds are numbered from 0 here, as in events (`iteration`); people see them from 1. Times are epoch milliseconds.
 */

import type { ClientEvent, LaneFacts } from "../client/index.ts";

/** A message from a person or a service: a prompt, a followup, a steer, a form, an alert. */
export interface Message {
  readonly messageId: string;
  /** The number of its batch; 0 while it is unacknowledged. */
  readonly n: number;
  /** `prompt`, `followup`, `steer`, or an event's own kind. */
  readonly kind: string;
  readonly text: string;
  /** The service that sent it, or "". */
  readonly source: string;
  readonly attachments: readonly Attachment[];
  readonly at: number;
  readonly state: MessageState;
}

export type MessageState =
  /** Accepted outside a turn, or the heading of one. */
  | { readonly is: "said" }
  /** Sent during the open turn; the next round to begin is the earliest to read it. */
  | { readonly is: "waiting" }
  /** Included in a request: round `iteration` has read it. */
  | { readonly is: "read"; readonly iteration: number }
  /** It has interrupted the turn. `phase` is what it interrupted. */
  | { readonly is: "heeded"; readonly phase: "decision" | "tools" | ""; readonly finalizeRounds: number }
  /** Never read by the model, and handed back. */
  | { readonly is: "dropped"; readonly reason: string };

export interface Attachment {
  readonly filename: string;
  readonly mime: string;
  readonly sizeBytes: number;
  /** Its logical path, "" while its message waits for a turn. */
  readonly path: string;
}

/** Text that may still grow. */
export interface Growing {
  readonly text: string;
  /** No more text follows: the lane was closed, settled, or replaced by a recorded text. */
  readonly whole: boolean;
  /** The reason why the text stops early, or "". */
  readonly aborted: string;
}

export interface Usage {
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWrite5mTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly outputTokens: number;
  readonly estimated: boolean;
}

export interface Bust {
  readonly reason: string;
  readonly expectedTokens: number;
  readonly readTokens: number;
}

/** A step of a round other than its decision, in order of time. */
export type RoundItem =
  | { readonly is: "call"; readonly callId: string }
  /** A file or a text of a lane (`canvas.<i>`, `timeline.<i>`) that streams while it is written. */
  | { readonly is: "draft"; readonly lane: string }
  /** One of several calls that was not run, or a decision that violated the protocol. */
  | { readonly is: "rejected"; readonly code: string; readonly toolId: string; readonly actionIndex: number | null }
  | { readonly is: "notice"; readonly code: string }
  /** `attempt` counts retries: 1 for the second attempt, 0 if the turn's execution was replaced. */
  | { readonly is: "restarted"; readonly attempt: number; readonly at: number }
  /** The provider is busy until this time; `attempt` of `attempts` follows, 0 if unknown. */
  | {
      readonly is: "waiting";
      readonly code: string;
      readonly until: number;
      readonly attempt: number;
      readonly attempts: number;
    }
  | { readonly is: "compaction"; readonly compactionId: string }
  /** The round changed a plan. */
  | { readonly is: "plan"; readonly planId: string }
  /** An event from a hook of the bundle, outside any call. */
  | { readonly is: "event"; readonly toolId: string; readonly type: string; readonly data: unknown };

/** One decision of the model, and its actions. */
export interface Round {
  readonly iteration: number;
  readonly claim: number;
  readonly state: /** Nothing has arrived yet, or its thinking grows. */
    | "thinking"
    /** A decision is streaming. */
    | "deciding"
    /** Its actions run, or one of them waits for approval. */
    | "acting"
    | "done";
  /** The decision violated the protocol, and another round follows. */
  readonly refused: boolean;
  /** Interrupted on purpose. */
  readonly interrupted: boolean;
  readonly declined: boolean;
  /** `call_tool`, `complete`, `exit`, or "" while undecided. */
  readonly action: string;
  readonly thinking: Growing;
  readonly notes: Growing;
  readonly items: readonly RoundItem[];
  readonly calls: readonly Call[];
  readonly drafts: readonly Draft[];
  /** The plan while it is written, until its call has ended. */
  readonly planDraft: Growing | null;
  /** When the model was called, when it had decided, and when the last action had ended; null while unknown. */
  readonly startedAt: number;
  readonly decidedAt: number | null;
  readonly endedAt: number | null;
  readonly model: string;
  readonly usage: Usage | null;
  readonly bust: Bust | null;
  /** The number of rounds that the turn may run after this one; null if it is unlimited or unknown. */
  readonly roundsLeft: number | null;
  /** The number of the newest batch that the request contained. */
  readonly rendered: number;
}

export interface Draft {
  readonly lane: string;
  /** The name of the file, "" while unknown. */
  readonly name: string;
  readonly format: string;
  readonly text: Growing;
  /** True for a file of the canvas, false for a text of the timeline. */
  readonly canvas: boolean;
  /** The call that writes it, "" while unknown. */
  readonly callId: string;
}

export type CallState = "written" | "waiting" | "running" | "ok" | "error" | "unverified" | "skipped";

/** One action: a tool, or a program. */
export interface Call {
  readonly callId: string;
  readonly toolId: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly state: CallState;
  readonly startedAt: number | null;
  readonly durationMs: number | null;
  readonly paths: readonly string[];
  readonly preview: string;
  /** Why it failed or was not run; "" if it succeeded. */
  readonly code: string;
  readonly events: readonly { readonly type: string; readonly data: unknown }[];
  /** Its reports, while it runs. */
  readonly live: Reports | null;
  readonly search: SearchView | null;
  readonly fetched: FetchView | null;
  readonly program: Program | null;
  readonly approval: Approval | null;
}

/** What a running call reports. Another attempt at it has another lane. */
export interface Reports {
  readonly lane: string;
  readonly progress: Progress | null;
  readonly events: Call["events"];
}

/** How much is done; `total` is 0 if it is unknown. */
export interface Progress {
  readonly done: number;
  readonly total: number;
  readonly text: string;
}

export interface SearchView {
  readonly objective: string;
  readonly queries: readonly string[];
  readonly results: readonly SearchResult[];
}

export interface SearchResult {
  readonly sid: number;
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

/** A row for each address. `status` is `success`, or an error code that `error` explains. */
export interface FetchView {
  readonly objective: string;
  readonly results: readonly (SearchResult & { readonly status: string; readonly error: string })[];
}

export interface Program {
  readonly name: string;
  readonly objective: string;
  readonly code: Growing;
  readonly language: string;
  readonly contract: readonly { readonly filename: string; readonly description: string; readonly internal: boolean }[];
  readonly state: "writing" | "ready" | "starting" | "running" | "collecting" | "done" | "error";
  /** When it was launched, began to run, and had run; null while unknown. */
  readonly startedAt: number | null;
  readonly ranAt: number | null;
  readonly endedAt: number | null;
  readonly deadline: number | null;
  /** The durations of writing, starting, running and collecting. */
  readonly codegenMs: number | null;
  readonly startMs: number | null;
  readonly execMs: number | null;
  readonly collectMs: number | null;
  readonly errorCode: string;
  /** Its output; the `base` characters before it are stored nowhere. */
  readonly log: {
    readonly base: number;
    readonly text: string;
    readonly whole: boolean;
    readonly bytes: number | null;
  };
}

export interface Approval {
  readonly state: "asked" | "approved" | "edited" | "denied" | "expired" | "withdrawn" | "stopped";
  /** `always`, `never` or `first_use`. */
  readonly rule: string;
  readonly editable: boolean;
  /** The parameters with which the call would run. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly code: string;
  readonly until: number | null;
  /** The reason for a denial. */
  readonly text: string;
  readonly editedCallId: string;
  /** The application that answered; "" if its token names none. */
  readonly client: string;
}

export interface Plan {
  readonly planId: string;
  readonly steps: readonly { readonly text: string; readonly status: "pending" | "in_progress" | "done" | "failed" }[];
  readonly current: boolean;
  readonly open: boolean;
  /** The turn that changed it last; the round has it in its items. */
  readonly turnId: string;
  /** The number of its versions. */
  readonly versions: number;
  /** The step (from 0) that changed last; null if none or all did. */
  readonly changed: number | null;
  readonly at: number;
}

export interface FileRow {
  readonly path: string;
  readonly filename: string;
  readonly mime: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly callId: string;
  readonly turnId: string;
  /** The number of times it was written. */
  readonly times: number;
}

export interface Source {
  readonly sid: number;
  readonly title: string;
  /** An http or https address, or "". */
  readonly url: string;
  /** A logical path, or "". */
  readonly path: string;
  readonly snippet: string;
}

export interface Compaction {
  readonly compactionId: string;
  readonly title: string;
  readonly kind: string;
  readonly beforeTokens: number;
  readonly afterTokens: number | null;
  readonly maxTokens: number;
  readonly coveredTurns: number;
  readonly reason: string;
  readonly ended: boolean;
}

export interface Answer {
  readonly text: string;
  readonly state:
    | "streaming"
    /** Recorded in the log. */
    | "recorded"
    /** Held back, because a message arrived that it had not read. */
    | "deferred"
    /** Interrupted by a steer or a stop. */
    | "cut";
  readonly iteration: number;
  /** The claim and the lane on which it streams; 0 and "" once it is recorded. */
  readonly claim: number;
  readonly lane: string;
}

export type Outcome =
  | { readonly is: "running" }
  /** `reason` as in `chat.complete`: `complete`, `exit`, `max_iterations`, `steer`, `stop`, … `value`: of an agent with a result type. */
  | { readonly is: "completed"; readonly reason: string; readonly message: string; readonly value?: unknown }
  | {
      readonly is: "error";
      readonly code: string;
      readonly message: string;
      readonly retryable: boolean;
      readonly retryAfterS: number;
    };

export interface Receipt {
  readonly elapsedMs: number;
  /** Its time by part; the parts add up to the whole. Empty if unknown. */
  readonly parts: readonly TimePart[];
  readonly rounds: number;
  readonly usage: Usage | null;
  readonly totalInputTokens: number;
  readonly weightedTokens: number;
  readonly model: string;
  /** The cost of its priced model calls in dollars, and whether that includes all calls. */
  readonly usd: number;
  readonly priced: boolean;
  /** By role and model; empty for a turn of an older release. */
  readonly lines: readonly CostLine[];
}

/** A part of a turn's time; `between` is the time from one step to the next. */
export interface TimePart {
  readonly is: "model" | "tools" | "starting" | "collecting" | "preparing" | "waiting" | "between";
  readonly ms: number;
}

/** The calls of one model in one role: the agent, a title, a summary, a tool. */
export interface CostLine {
  readonly role: string;
  readonly model: string;
  readonly calls: number;
  readonly usage: Usage | null;
  readonly usd: number;
  readonly priced: boolean;
}

/** The cost of a turn: its model calls, and the infrastructure that ran for it. */
export interface WholeReceipt {
  readonly lines: readonly CostLine[];
  /** The cost of the models that have a price. */
  readonly usd: number;
  readonly priced: boolean;
  readonly aws: readonly AwsCost[];
  readonly awsUsd: number;
  /** Attempts that were lost before they reported their usage. */
  readonly unreported: number;
  /** The date of the price table. */
  readonly pricesOf: string;
}

export interface AwsCost {
  readonly what: string;
  readonly quantity: number;
  readonly usd: number;
}

export interface Feedback {
  readonly origin: string;
  readonly reaction: "ok" | "not_ok" | "neutral" | "";
  readonly text: string;
}

/** One turn, in the order of the log. */
export interface Turn {
  readonly turnId: string;
  /** The batches that opened and closed it; the latter is 0 while it runs. */
  readonly openedN: number;
  readonly closedN: number;
  /** The messages that opened it, and their numbers. For a message on an earlier page there is only the number. */
  readonly prompts: readonly Message[];
  readonly promptNs: readonly number[];
  /** Messages that arrived while it ran, in order; `after` is the number of rounds before each. */
  readonly messages: readonly (Message & { readonly after: number })[];
  readonly rounds: readonly Round[];
  readonly compactions: readonly Compaction[];
  /** Deferred answers, then the last one. */
  readonly answers: readonly Answer[];
  readonly citations: readonly Source[];
  readonly unresolvedSids: readonly number[];
  readonly files: readonly FileRow[];
  readonly followups: readonly string[];
  readonly outcome: Outcome;
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** The maximum number of rounds; 0 if unknown. */
  readonly roundsMax: number;
  readonly maxTokens: number;
  readonly receipt: Receipt | null;
  readonly feedback: readonly Feedback[];
  /** The rounds left after a steer, 0 for a stop; null if neither arrived, or a message made the turn continue. */
  readonly ending: number | null;
  /** The call that waits for approval, or "". */
  readonly approval: string;
  /** Its queue position, 1 if it is the next; 0 if it is not queued. */
  readonly place: number;
}

export interface Thread {
  readonly conversation: string;
  readonly title: string;
  readonly state: "created" | "in_progress" | "idle" | "error";
  readonly turns: readonly Turn[];
  /** The number of turns that began before the oldest loaded batch. */
  readonly turnsBefore: number;
  /** Messages sent while no turn was open that opened none: events kept for the next turn, and messages handed back. */
  readonly loose: readonly Message[];
  /** Newest version of each plan, oldest plan first. */
  readonly plans: readonly Plan[];
  /** Every file that was offered, by the newest turn that wrote it. */
  readonly files: readonly FileRow[];
  /** Every source that was found or cited, by number. */
  readonly sources: ReadonlyMap<number, Source>;
  /** Events and lanes that this page does not know, by name. */
  readonly unknown: ReadonlyMap<string, number>;
  /** The number of the newest batch. */
  readonly cursor: number;
  /** The running stream; its text is drawn in the open round, too. */
  readonly stream: Stream | null;
  /** Events about turns and messages on earlier pages, with their batch numbers. */
  readonly early: readonly { readonly n: number; readonly event: ClientEvent }[];
}

/** A running generation, or the log of a running program, by lane. */
export interface Stream {
  readonly claim: number;
  readonly lanes: ReadonlyMap<string, Lane>;
}

/** The text of a lane so far. Offsets count code points. */
export interface Lane {
  readonly name: string;
  /** Null if its text has arrived before its description. */
  readonly facts: LaneFacts | null;
  /** The start and the end of the text. Text before the start is stored nowhere. */
  readonly base: number;
  readonly end: number;
  readonly text: string;
  readonly whole: boolean;
  readonly aborted: string;
  /** When the program that printed it ended; "" while unknown. */
  readonly endedAt: string;
}
