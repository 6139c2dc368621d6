/** An explanation of token units next to the number: on focus, on hover, or by a tap. */

import { useId, useRef } from "preact/hooks";
import { say } from "../../words/en/thread.ts";

export function UnitsTip() {
  const id = useId();
  const tip = useRef<HTMLSpanElement>(null);
  const show = (event: Event) =>
    tip.current?.togglePopover({ force: true, source: event.currentTarget as HTMLElement });
  const hide = () => tip.current?.togglePopover(false);
  return (
    <>
      <button
        type="button"
        class="tool unit"
        aria-label={say.unitsAsk}
        aria-describedby={id}
        onClick={show}
        onFocus={show}
        onBlur={hide}
        onMouseEnter={show}
        onMouseLeave={hide}
      >
        ?
      </button>
      <span ref={tip} id={id} class="tip" role="tooltip" popover="auto">
        {say.unitsTip}
      </span>
    </>
  );
}
