/**
 * Intervals in seconds, and limits on attempts. Delays between attempts are random, so that clients that lost the same
 * server do not reconnect at the same moment.
 */
export interface Pace {
  /** How long a gap may take to close on its own: frames overtake each other. */
  readonly gapS: number;
  /** Between two resumes, if the first did not return everything. */
  readonly resumeEveryS: number;
  /** Until an unanswered resume is repeated. */
  readonly resumeAnswerS: number;
  /** Until an unanswered message, ping or renewal is repeated. */
  readonly answerS: number;
  /** The longest `retry_after_s` that the client honors before it sends a message again. */
  readonly retryAfterMaxS: number;
  /** Tries of one message on one connection, and of a refused resume. */
  readonly tries: number;
  /** Connections on which one message is sent before it is given up. */
  readonly connections: number;
  /** Resumes in a row without progress before the failure is reported. */
  readonly resumes: number;
  /** Silence in an open turn before it is reported: longer than an execution may take. */
  readonly silentS: number;
  /** Between pings while a turn is open, to detect that the last frame was lost. */
  readonly pingEveryS: number;
  /** Between pings otherwise: API Gateway closes a connection after ten idle minutes. */
  readonly idlePingEveryS: number;
  /** Unanswered pings, after which the connection counts as broken. */
  readonly pings: number;
  /** Fraction of the token's remaining time after which it is renewed. */
  readonly renewAfter: number;
  /**
   * The age at which a connection is replaced, a random number in this range: API Gateway closes it after two hours.
   */
  readonly replaceS: readonly [number, number];
  /** Upper bounds of the delay, one for each attempt to reconnect. The last one applies to all further attempts. */
  readonly reconnectDelaysS: readonly number[];
  /**
   * Until a connection that does not open counts as failed: a cold authorizer and a cold function start one after the
   * other.
   */
  readonly openS: number;
  /** A timer that fires this late means that the machine slept. */
  readonly asleepS: number;
  /** Until a connection that stays silent after a wake counts as broken. */
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
