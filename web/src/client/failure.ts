/** The reason why a connection or a request failed for good, by its code. */
export interface Failure {
  /**
   * `unauthorized`, `socket_unreachable`, `format_newer`, `message_too_large`, `no_answer`, or a code from the server.
   */
  readonly code: string;
  readonly message: string;
}

/** A failure that can be thrown. */
export class ClientError extends Error implements Failure {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}
