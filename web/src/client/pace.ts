/**
 * Intervals in seconds, and numbers of tries. Waits between tries are drawn at random, so that clients that lost one server do
 * not come back in step.
 */
export interface Pace {
  /** How long a gap may close by itself: frames overtake each other. */
  readonly gapS: number;
  /** Between two resumes, if the first did not bring everything. */
  readonly resumeEveryS: number;
  /** Until an unanswered resume is repeated. */
  readonly resumeAnswerS: number;
  /** Until an unanswered message, ping or renewal is repeated. */
  readonly answerS: number;
  /** Longest pause that a server may ask for before a message is sent again. */
  readonly retryAfterMaxS: number;
  /** Tries of one message on one connection, and of a resume that is refused. */
  readonly tries: number;
  /** Connections on which one message is sent before it is given up. */
  readonly connections: number;
  /** Resumes in a row without progress, before that is reported. */
  readonly resumes: number;
  /** Silence in an open turn before that is reported: longer than an execution may take. */
  readonly silentS: number;
  /** Between pings while a turn is open: finds a lost last frame. */
  readonly pingEveryS: number;
  /** Between pings otherwise: a gateway closes a connection after ten idle minutes. */
  readonly idlePingEveryS: number;
  /** Unanswered pings, after which the connection counts as broken. */
  readonly pings: number;
  /** Fraction of the token's remaining time after which it is renewed. */
  readonly renewAfter: number;
  /** The age at which a connection is replaced, drawn between these: a gateway closes it after two hours. */
  readonly replaceS: readonly [number, number];
  /** Upper bounds, one for each attempt to reconnect; the last one goes on for all that follow. */
  readonly reconnectDelaysS: readonly number[];
  /** Until a connection that does not open counts as failed: a cold authorizer and a cold function start one after the other. */
  readonly openS: number;
  /** A timer that fires so late was held up by a machine that slept. */
  readonly asleepS: number;
  /** Until a connection that says nothing after a wake counts as broken. */
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
