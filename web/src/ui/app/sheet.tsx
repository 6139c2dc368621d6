/** What lies over the page and is closed by Escape: a dialog, or a panel that slides over the thread. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface SheetProps {
  readonly label: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** The id of a text that says what it is about. */
  readonly describedBy?: string;
  /** It asks for an answer before anything else. */
  readonly alert?: boolean;
  /** `dialog` in the middle, or a panel at one edge: at the bottom of a narrow window. */
  readonly place: "dialog" | "start" | "end";
}

/** A modal `<dialog>`: the browser keeps the focus in it, and gives it back. */
export function Sheet({ label, describedBy, alert = false, onClose, children, place }: SheetProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const gone = useRef(false);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => {
      gone.current = true;
      element?.close();
    };
  }, []);
  const closeOnGround = (event: MouseEvent) => {
    if (event.target === dialog.current) onClose();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog, and the button within it; the ground is for pointers
    <dialog
      ref={dialog}
      class={`over ${place}`}
      role={alert ? "alertdialog" : undefined}
      aria-label={label}
      aria-describedby={describedBy}
      // What is taken away, since the window has become wider for instance, was not closed by the reader.
      onClose={() => gone.current || onClose()}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={closeOnGround}
    >
      {children}
    </dialog>
  );
}
