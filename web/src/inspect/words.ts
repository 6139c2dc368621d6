/** Words of the inspector, in English. Plain strings, and functions of the numbers and names in them. */

import { formatBytes, formatNumber } from "../words/format";

function count(n: number, one: string, many = `${one}s`): string {
  return `${formatNumber(n)} ${n === 1 ? one : many}`;
}

/** Lines of the log, as `stepline log` prints them. */
const entries = {
  owner: (user: string, bundle: string) => `belongs to ${user}${bundle && `, with the bundle ${bundle}`}`,
  turn: (turn: string) => `── ${turn}`,
  opened: "opened",
  answer: (text: string) => `answer: ${text}`,
  usage: (rounds: number, input: number, cached: number, output: number) =>
    `rounds ${rounds}, tokens ${input} in (${cached} cached), ${output} out`,
  round: (round: number) => `round ${round}`,
  cutOff: ", cut off",
  rejected: ", rejected",
  declined: (model: string, why: string) => `, declined by ${model}${why && ` (${why})`}`,
  tokens: (input: number, output: number) => `, ${input} tokens in, ${output} out`,
  call: (call: string, tool: string) => `call ${call} ${tool}`,
  notice: (code: string, message: string) => `notice ${code}: ${message}`,
  notRun: (index: number, code: string) => `✗ action ${index} was not run: ${code}`,
  pruned: (keep: number, cause: string) => `turns before the newest ${keep} shortened (${cause})`,
  compacting: (before: number, most: number) => `compaction begins: ${before} of ${most} tokens`,
  compacted: (status: string, before: number, after: number) => `compaction ${status}: ${before} → ${after} tokens`,
  titled: (title: string) => `title: ${title}`,
  contributed: (block: string) => `contributed ${block}`,
  feedback: (turn: string, reaction: string, text: string) => `feedback on ${turn}: ${reaction} ${text}`,
  none: "none",
  listed: (tools: number, until: string, failed: string) =>
    `${tools} tools of MCP servers listed until ${until}${failed && `, without ${failed}`}`,
  parked: (call: string, tool: string, rule: string) => `parked: may ${call} ${tool} run? (${rule})`,
  runsInstead: (call: string, tool: string) => `, ${call} ${tool} runs instead`,
  waits: (until: string, code: string) => `waits until ${until} (${code})`,
  attempt: (attempt: number) => `attempt ${attempt}`,
  failedAfter: (tokens: number) => ` failed after ${tokens} tokens`,
  asTask: (until: string) => ` as a task, until ${until}`,
  runs: "runs",
  aboutToRun: "about to run",
  deferred: (round: number) => `round ${round}: answer held back, something new came in`,
  dropped: (n: number, reason: string) => `dropped ${n}: ${reason}`,
  steered: (n: number, finalize: number) => `steered by ${n}: ${finalize ? `${finalize} rounds left` : "stopped"}`,
  takenOver: (reason: string, takeovers: number) => `taken over (${reason}), ${takeovers} so far`,
};

/** Kinds of pieces, as the model reads them. */
const kinds: Readonly<Record<string, string>> = {
  system: "SYSTEM",
  file: "FILE",
  sources: "SOURCES POOL",
  announce: "ANNOUNCE",
  header: "TURN",
  prompt: "USER MESSAGE",
  event: "EVENT",
  round: "ROUND",
  thinking: "THINKING",
  notes: "NOTES",
  code: "CODE",
  call: "TOOL CALL",
  notice: "NOTICE",
  raw: "RAW TEXT",
  status: "STATUS",
  result: "TOOL RESULT",
  end: "END OF ROUND",
  answer: "ANSWER",
  outcome: "OUTCOME",
  summary: "SUMMARY",
  note: "NOTE",
  stage: "BUNDLE",
  closing: "END OF TURN",
  message: "MESSAGE",
  feedback: "FEEDBACK",
  card: "CARD OF A TURN",
  memory: "SUMMARY OF TURNS",
  plans: "PLANS",
  checkpoint: "SUMMARY OF ROUNDS",
};

const rounds = {
  title: "Rounds",
  unit: "tokens in",
  label: "Turns and rounds",
  turn: (turn: number) => `Turn ${turn}`,
  place: (turn: number, round: number, batch: number) => `turn ${turn} · round ${round} · batch ${batch}`,
  of: (turn: number, round: number) => `turn ${turn}, round ${round}`,
  runs: "running",
  refresh: "Read again",
  none: "No round has been decided yet.",
  gone: "There is no such round, or it is not decided yet.",
  refused: "refused",
  interrupted: "cut off",
  bust: (read: string, expected: string, reason: string) => `${read} of ${expected} read: ${reason}`,
  figures: (read: string, written: string, plain: string, output: string) =>
    `${read} read, ${written} written, ${plain} plain, ${output} output`,
  notCounted: "not counted",
  keys: "j and k go to the next and the previous round, t to the chat.",
};

/** Why a cache was read for less than it held. */
const busts: Readonly<Record<string, string>> = {
  system: "the instructions changed",
  tools: "the tools of MCP servers changed",
  model: "another model answered",
  hide: "a block was hidden",
  prune: "older turns were shortened",
  compaction: "older turns were summed up",
  feedback: "feedback was added",
  provider: "nothing of ours changed",
};

const request = {
  label: "What the model saw",
  tokensIn: (share: string) => `tokens in, ${share} read`,
  notCounted: "tokens, estimated: the provider did not count them",
  read: "read from the cache",
  written: "written",
  plain: "plain",
  leftOut: "left out",
  output: "output",
  pieces: (tokens: string, most: string) =>
    `Pieces are estimates: ${tokens} together${most && `, of ${most} at most`}.`,
  equal: (digest: string) => `These are the bytes that were sent: their SHA-256 ${digest}… is the recorded one.`,
  unequal: (digest: string) =>
    `Not the bytes that were sent: their SHA-256 was ${digest}…, and this release renders the log differently.`,
  mark: (mark: number) => `mark ${mark}`,
  behind: (tokens: string, what: string) => `${tokens} tokens, ${what}`,
  marks: {
    system: "the system part",
    turn: (turn: number) => `the end of turn ${turn}`,
    before: "where the request before ended",
    end: "the end of the timeline",
    batch: (n: number) => `up to batch ${n}`,
  },
  tokensOf: (tokens: string) => `${tokens} tokens`,
  group: (turn: number) => `TURN ${turn}`,
  groupOf: (rounds: number, pieces: number) =>
    [rounds ? count(rounds, "round") : "", count(pieces, "piece")].filter(Boolean).join(", "),
  newest: "new",
  everyTime: "every time",
  neverStored: "never stored",
  sameSince: (turn: number) => `same since turn ${turn}`,
  hidden: "The text of the system part is the deployment's: it is shown to admins only.",
  file: "The bytes of a file; its digest is in its place here.",
  shortened: (why: string, from: string) => `${why} from ${from}`,
  nothing: "Nothing is shown of it any more.",
  original: "Show the original",
  hideOriginal: "Hide the original",
  shown: "As the model read it",
  before: "The original",
  noOriginal: "Nothing is kept at its path any more.",
  binary: (mime: string, size: number) => `${mime}, ${formatBytes(size)}`,
  showAll: (lines: number, bytes: number) => `Show all: ${count(lines, "line")}, ${formatBytes(bytes)}`,
  showLess: "Show less",
  select: (n: number) => `Select batch ${n} in the log`,
  sections: (sections: number) => count(sections, "section"),
};

const diff = {
  title: "Difference",
  against: "Compare with",
  from: (older: string, newer: string) => `From ${older} to ${newer}`,
  same: (pieces: number) => `${count(pieces, "piece")} the same`,
  gone: (pieces: number) => count(pieces, "piece"),
  ops: { added: "added", removed: "gone", changed: "changed" } as Readonly<Record<string, string>>,
  first: (byte: string, tokens: string) =>
    `first difference: byte ${byte}, behind ${tokens} tokens. A cache ends here.`,
  none: "The two requests are the same, byte for byte.",
  itself: "There is no other round to compare with.",
  hidden: "Its text is the deployment's, and not shown to you; the digests differ.",
  bust: (read: string, expected: string, reason: string) =>
    `The cache held ${expected} tokens, and ${read} of them were read: ${reason}.`,
  long: (bytes: number) => `Compare these words (${formatBytes(bytes)})`,
};

const reply = {
  model: "model",
  action: "action",
  asked: "asked at",
  took: "took",
  first: "first token after",
  unknown: "not recorded",
  stop: "stop reason",
  usage: "tokens",
  usageOf: (input: string, share: string, output: string) => `${input} in (${share} read), ${output} out`,
  thinking: "Thinking",
  span: (begin: string, end: string) => `${begin} to ${end}`,
  decision: "Decision",
  code: "Code",
  codeOf: (call: string) => `Program of ${call}`,
  notices: "Notices",
  raw: "Raw text",
  rawRefused: "The generation as it came; its decision was refused.",
  rawCut: "The generation as far as it came.",
  answer: "Answer",
  declined: "The model declined to answer",
  ended: {
    max_iterations: "The runtime answered in the model's place: the rounds were used up.",
    violations: "The runtime answered in the model's place: too many decisions were refused.",
    steer: "The runtime answered in the model's place: the turn was redirected.",
  } as Readonly<Record<string, string>>,
  accepted: "accepted",
  refused: "refused",
  interrupted: "cut off",
};

const log = {
  title: "Log",
  label: "The log",
  range: (first: number, last: number) => `${formatNumber(first)} – ${formatNumber(last)}`,
  earlier: "Earlier batches",
  later: "Later batches",
  saw: "what the model had seen",
  state: "State",
  behind: (n: number) => `behind ${formatNumber(n)}`,
  facts: {
    status: "status",
    epoch: "epoch, claim",
    rendered: "rendered",
    cursor: "cursor",
    running: "runs",
    parked: "waits for approval",
    finalize: "rounds left",
  },
  cursor: (round: number, phase: string, action: number, actions: number) =>
    `round ${round}, ${phase}${phase === "act" ? `, ${action + 1} of ${actions}` : ""}`,
  entry: "Entries as stored",
  batch: (n: number) => `Batch ${n}`,
};

const costs = {
  title: "Costs",
  label: "Costs of the conversation",
  by: "Draw",
  byRound: "by round",
  byTurn: "by turn",
  tokens: "Tokens by cache class",
  share: "Share read from the cache",
  weighted: "Weighted tokens",
  weightedNote: "In tokens of plain input: reads count 0.1, writes 1.25 and 2, output 5.",
  most: (value: string) => `highest ${value}`,
  share100: "of 100%",
  numbers: "Numbers below are turns.",
  table: "The same in numbers",
  columns: {
    call: "Call",
    read: "Read",
    written: "Written",
    plain: "Plain",
    output: "Output",
    share: "Read share",
    weighted: "Weighted",
    usd: "US$",
  },
  kinds: {
    round: (round: number) => `round ${round}`,
    title: "title",
    summary: "summary",
    hook: "hook",
    tool: "tool",
    failed: "failed attempt",
  },
  all: "All turns",
  about: (value: string) => `about ${value}`,
  unpriced: "–",
  partly: (usd: string) => `${usd} or more`,
  prices: (date: string) => `Prices as of ${date}. Calls beside the rounds have none.`,
  none: "Nothing was asked of a model yet.",
};

/** What stands in the place of something that could not be read. */
const refusals: Readonly<Record<string, string>> = {
  not_inspectable:
    "This deployment does not show requests, replies and the log to you. Rounds and costs are yours to see.",
  round_not_found: "Nothing is recorded of this round's request: it is older than the recording of requests.",
  not_found: "There is no such conversation, or it is not yours.",
  body_missing: "A text of this conversation is missing in the store.",
  api_unreachable: "The server cannot be reached.",
};

export const words = {
  entries,
  kinds,
  rounds,
  busts,
  request,
  diff,
  reply,
  log,
  costs,
  refusals,
  views: { request: "Request", diff: "Diff", reply: "Reply", costs: "Costs" },
  viewsLabel: "Views of the round",
  tabs: { rounds: "Rounds", middle: "Round", log: "Log" },
  tabsLabel: "Panels",
  loading: "Reading…",
  retry: "Try again",
};
