/** The view of a deleted conversation, wherever it was deleted. An unsent draft can move to a new one. */

import { shell } from "../../words/en/shell.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector } from "../store/store.ts";

const { erase: words } = shell;

export function Deleted({ page, conversation }: { page: Page; conversation: Conversation }) {
  const written = useSelector(conversation.composer.draft, (draft) => draft.text);
  const outbox = useSelector(conversation.store, (state) => state.outbox);
  const text = [...outbox.map((message) => message.text), written].filter((one) => one.trim() !== "").join("\n\n");
  const begin = () => {
    conversation.forget();
    page.begin();
    if (text) page.current.value.composer.write(text);
  };
  return (
    <div class="sheet">
      <div class="blank">
        <p>{words.gone}</p>
        <button type="button" class="act" onClick={begin}>
          {text ? words.beginWith : shell.thread.begin}
        </button>
      </div>
    </div>
  );
}
