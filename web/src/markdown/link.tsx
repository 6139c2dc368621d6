/** Links of untrusted text, and citations. They load nothing: a picture of another site is a link to it. */

import { type ComponentChildren, h, type TargetedEvent, type VNode } from "preact";
import { say } from "../words/en/markdown.ts";
import { CITE_CARD_ID, type MarkdownContext, pathAddress } from "./context.ts";
import { citedSource, resolveTarget, type Target } from "./target.ts";
import { visible } from "./visible.ts";

const REL = "noopener noreferrer nofollow ugc";

/** Return true if a click follows the link here. With a modifier, or another button, the browser opens it elsewhere. */
export function isPlainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
}

/** Return the attributes of an anchor to a target; null if there is none. */
export function anchor(target: Target, context: MarkdownContext) {
  if (target.is === "nowhere") return null;
  if (target.is === "web") return { href: target.href, title: target.shown, target: "_blank", rel: REL };
  const { path } = target;
  return {
    href: pathAddress(context.conversation, path),
    title: visible(path),
    onClick(event: MouseEvent) {
      if (!isPlainClick(event)) return;
      event.preventDefault();
      context.onOpenPath(path);
    },
  };
}

function Citation({ sid, target, context }: { sid: number; target: Target; context: MarkdownContext }) {
  const source = context.resolveSource(sid);
  const number = context.numberOf?.(sid) ?? sid;
  const label = source?.title ? `${say.source(number)}: ${visible(source.title)}` : say.source(number);
  const marks = {
    class: "cite",
    "aria-label": label,
    "aria-describedby": CITE_CARD_ID,
    onMouseEnter: (event: TargetedEvent<HTMLElement>) => context.onCite(sid, event.currentTarget),
    onMouseLeave: () => context.onCite(sid, null),
    onFocus: (event: TargetedEvent<HTMLElement>) => context.onCite(sid, event.currentTarget),
    onBlur: () => context.onCite(sid, null),
  };
  // Use only the address in the text itself: the known source may be older or newer than the text.
  const where = anchor(target, context);
  return where ? h("a", { ...where, ...marks }, number) : h("button", { type: "button", ...marks }, number);
}

interface LinkProps {
  readonly href: string;
  readonly title: string | null | undefined;
  readonly context: MarkdownContext;
  readonly children: ComponentChildren;
}

/** A link, a citation, or, if the address is not safe to open, the link's words and its address as text. */
export function Link({ href, title, context, children }: LinkProps): VNode {
  const target = resolveTarget(href, context.conversation);
  const sid = citedSource(title);
  if (sid > 0) return <Citation sid={sid} target={target} context={context} />;
  const where = anchor(target, context);
  if (where) return <a {...where}>{children}</a>;
  const shown = target.is === "nowhere" ? target.shown : "";
  return (
    <span class="dead">
      {children}
      {shown && (
        <>
          {" "}
          <code dir="ltr">{shown}</code>
        </>
      )}
    </span>
  );
}
