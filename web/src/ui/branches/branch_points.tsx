/** Branches and forks in the thread: the switch at a message, the name of a branch, and links between forks. */

import { useEffect, useRef } from "preact/hooks";
import { isPlainClick, visible } from "../../markdown/index.ts";
import { type BranchPoint, pointsByMessage, turnBefore } from "../../thread/branches.ts";
import type { Message } from "../../thread/thread.ts";
import { branchWords as words } from "../../words/en/branches.ts";
import { Icon } from "../app/icons.tsx";
import { useSelector, useStore } from "../store/store.ts";
import { useDesk } from "../turn/desk.ts";
import type { ForkOf } from "./past.ts";
import { takeAim } from "./switch_branch.ts";
import { nameBranch } from "./tree.ts";
import "./branches.css";

/** The switches at a message; without one, those of points that no message follows yet. */
export function BranchPoints({ message }: { message: Message | null }) {
  const desk = useDesk();
  const { points } = useStore(desk.context.past);
  if (points.length === 0) return null;
  const placed = pointsByMessage(points, desk.thread).get(message?.n ? message.messageId : "");
  return (
    <>
      {placed?.map((point) => (
        <BranchSwitch key={point.after} point={point} />
      ))}
    </>
  );
}

function BranchSwitch({ point }: { point: BranchPoint }) {
  const { acts, context } = useDesk();
  const nav = useRef<HTMLElement>(null);
  const running = useSelector(context.past, (past) => past.running);
  const all = point.ways.length;
  const others = point.ways.filter((_, at) => at !== point.at).flat();
  useEffect(() => {
    const by = takeAim(point.after);
    if (by === 0) return;
    const [back, on] = nav.current?.querySelectorAll("button") ?? [];
    const used = by > 0 ? on : back;
    const button = used?.disabled ? (by > 0 ? back : on) : used;
    button?.focus({ preventScroll: true });
    nav.current?.scrollIntoView({ block: "center" });
  }, [point]);
  const step = (by: 1 | -1, label: string, sign: string) => (
    <button
      type="button"
      class="tool"
      aria-label={label}
      title={label}
      disabled={!point.ways[point.at + by]}
      onClick={() => acts.switchBranch(point, by)}
    >
      <span class="turns-round" aria-hidden="true">
        {sign}
      </span>
    </button>
  );
  return (
    <nav ref={nav} class="branches" aria-label={words.branches}>
      {step(-1, words.previous, "‹")}
      <span class="num" role="img" aria-label={words.branchOf(point.at + 1, all)}>
        {words.of(point.at + 1, all)}
      </span>
      <span class="on-paper">{words.branchOf(point.at + 1, all)}</span>
      {step(1, words.next, "›")}
      {others.some((name) => running.has(name)) && (
        <span class="lamp live" role="img" aria-label={words.othersRun} title={words.othersRun} />
      )}
    </nav>
  );
}

/** The number of a branch in its tree, on paper only. */
export function BranchName() {
  const { context } = useDesk();
  const { branches } = useStore(context.past);
  const name = nameBranch(branches, context.conversation);
  return name && <p class="on-paper">{name}</p>;
}

/** The first line of a fork: a link to the turn of its origin at which it begins. */
export function OriginLink() {
  const { acts, context, thread } = useDesk();
  const origin = useSelector(context.past, (past) => past.origin);
  if (!origin) return null;
  const turnId = turnBefore(thread, origin.n)?.turnId ?? "";
  return (
    <p class="fork-of aside">
      {words.forkOf}{" "}
      <ConversationLink conversation={origin.conversation} turnId={turnId} open={acts.openConversation}>
        {words.origin}
      </ConversationLink>
    </p>
  );
}

/** The forks that begin after a turn, or within it. */
export function ForkLinks({ turnId }: { turnId: string }) {
  const { acts, context, thread } = useDesk();
  const { forks } = useStore(context.past);
  const here = forks.filter((fork) => turnBefore(thread, fork.n)?.turnId === turnId);
  return <ForkList forks={here} open={acts.openConversation} />;
}

export function ForkList({ forks, open }: { forks: readonly ForkOf[]; open: (conversation: string) => void }) {
  if (forks.length === 0) return null;
  return (
    <ul class="forks" aria-label={words.forks}>
      {forks.map((fork) => (
        <li key={fork.conversation}>
          <Icon name="fork" />
          <ConversationLink conversation={fork.conversation} turnId="" open={open}>
            {visible(fork.title) || words.untitled}
          </ConversationLink>
        </li>
      ))}
    </ul>
  );
}

interface LinkProps {
  readonly conversation: string;
  readonly turnId: string;
  readonly open: (conversation: string, turnId?: string) => void;
  readonly children: string;
}

function ConversationLink({ conversation, turnId, open, children }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    open(conversation, turnId);
  };
  return (
    <a href={`/c/${conversation}${turnId && `/t/${turnId}`}`} onClick={follow}>
      <bdi>{children}</bdi>
    </a>
  );
}
