/** The button of the menu, and the anchor at which the menu opens. */

import { useRef, useState } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { Guard } from "../app/guard.tsx";
import { Icon } from "../app/icons.tsx";
import { loadLater } from "../app/load_later.ts";
import { useModule } from "../app/use_module.ts";
import { formatRoute } from "../route.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";

const ID = "page-menu";

interface MenuProps {
  readonly page: Page;
  readonly conversation: Conversation;
  /** The page shows this conversation, and it has turns. */
  readonly begun: boolean;
  readonly onRename: () => void;
  readonly openKeys: () => void;
  readonly openLimits: () => void;
}

export interface ItemsProps extends MenuProps {
  readonly open: boolean;
  readonly close: () => void;
}

function Items(props: ItemsProps) {
  const later = useModule(loadLater);
  return later && <later.MenuItems {...props} />;
}

export function MenuButton(props: MenuProps) {
  const panel = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="tool" aria-label={shell.bar.menu} popovertarget={ID}>
        <Icon name="more" />
      </button>
      <div ref={panel} id={ID} popover="auto" class="menu" onToggle={(event) => setOpen(event.newState === "open")}>
        <Guard place={formatRoute(props.page.route.value)}>
          <Items {...props} open={open} close={() => panel.current?.hidePopover()} />
        </Guard>
      </div>
    </>
  );
}
