/** A part of the page that may break without the rest. */

import { Component, type ComponentChildren } from "preact";
import { shell } from "../../words/en/shell.ts";

interface GuardProps {
  /** Where the page is: at another place it is tried again. */
  readonly place: string;
  readonly children: ComponentChildren;
}

interface GuardState {
  readonly broken: boolean;
}

/** Draws its children, or what can be done if one of them threw. */
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
