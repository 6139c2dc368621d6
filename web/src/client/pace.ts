/**
 * Intervals in seconds, and limits on attempts. Delays between attempts are random, so that clients that lost the same
 * server do not reconnect at the same moment.
 */
export interface Pace {
  /** How long a gap may take to close on its own: frames overtake each other. */
  readonly gapS: number;
  /** The delay between two resumes, if the first did not return everything. */
  readonly resumeEveryS: number;
  /** The wait before an unanswered resume is repeated. */
  readonly resumeAnswerS: number;
  /** The wait before an unanswered message, ping or renewal is repeated. */
  readonly answerS: number;
  /** The longest `retry_after_s` that the client honors before it sends a message again. */
  readonly retryAfterMaxS: number;
  /** The number of tries of one message on one connection, and of a refused resume. */
  readonly tries: number;
  /** The number of connections on which a message is tried before it is given up. */
  readonly connections: number;
  /** The number of resumes in a row without progress before the failure is reported. */
  readonly resumes: number;
  /** The silence in an open turn that is reported: longer than an execution may take. */
  readonly silentS: number;
  /** The interval of pings while a turn is open, to detect that the last frame was lost. */
  readonly pingEveryS: number;
  /** The interval of pings otherwise: API Gateway closes a connection after ten idle minutes. */
  readonly idlePingEveryS: number;
  /** The number of unanswered pings after which the connection counts as broken. */
  readonly pings: number;
  /** The fraction of the token's remaining time after which it is renewed. */
  readonly renewAfter: number;
  /**
   * The age at which a connection is replaced, a random number in this range: API Gateway closes it after two hours.
   */
  readonly replaceS: readonly [number, number];
  /** Upper bounds of the delay, one for each attempt to reconnect. The last one applies to all further attempts. */
  readonly reconnectDelaysS: readonly number[];
  /**
   * The time in which a connection must open before it counts as failed: a cold authorizer and a cold function start
   * one after the other.
   */
  readonly openS: number;
  /** If a timer fires this late, the machine slept. */
  readonly asleepS: number;
  /** The time after a wake when a still silent connection counts as broken. */
  readonly wakeAnswerS: number;
}

export const PACE: Pace = {
  gapS: 0.3,
  resumeEveryS: 0.5,
  resumeAnswerS: 10,
  answerS: 20,
  retryAfterMaxS: 120,
  tries: 5,
  connections: 20,
  resumes: 12,
  silentS: 4500,
  pingEveryS: 25,
  idlePingEveryS: 240,
  pings: 3,
  renewAfter: 0.8,
  replaceS: [6000, 6900],
  reconnectDelaysS: [1, 2, 4, 8, 16],
  openS: 45,
  asleepS: 30,
  wakeAnswerS: 5,
};
