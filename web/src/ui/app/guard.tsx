/** A part of the page whose failure leaves the rest intact. */

import { Component, type ComponentChildren } from "preact";
import { shell } from "../../words/en/shell.ts";

interface GuardProps {
  /** The page's address: a different one triggers another attempt. */
  readonly place: string;
  readonly children: ComponentChildren;
}

interface GuardState {
  readonly broken: boolean;
}

/** Renders its children, or a message with the possible actions if one of them throws. */
export class Guard extends Component<GuardProps, GuardState> {
  override state: GuardState = { broken: false };

  static override getDerivedStateFromError(): GuardState {
    return { broken: true };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override componentDidUpdate(before: GuardProps): void {
    if (this.state.broken && before.place !== this.props.place) this.setState({ broken: false });
  }

  override render() {
    if (!this.state.broken) return this.props.children;
    return (
      <div class="blank">
        <p role="alert">{shell.thread.broken}</p>
        <button type="button" class="act" onClick={() => location.reload()}>
          {shell.connection.reload}
        </button>
      </div>
    );
  }
}
