/** An overlay that Escape closes: a dialog, or a panel that slides over the thread. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface SheetProps {
  readonly label: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** The id of the element that describes it. */
  readonly describedBy?: string;
  /** It requires an answer before anything else. */
  readonly alert?: boolean;
  /** `dialog` is centered, or a panel at one edge: at the bottom of a narrow window. */
  readonly place: "dialog" | "start" | "end";
}

/** A modal `<dialog>`: the browser traps the focus in it, and restores it afterwards. */
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
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape and a button close the dialog; the backdrop is for pointers
    <dialog
      ref={dialog}
      class={`over ${place}`}
      role={alert ? "alertdialog" : undefined}
      aria-label={label}
      aria-describedby={describedBy}
      // The user did not close it if it was removed, for instance because the window became wider.
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
