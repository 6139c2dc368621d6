/** The keyboard map. */

import { shell } from "../../words/en/shell.ts";
import { COMMAND } from "../keys/command.ts";
import { Sheet } from "./sheet.tsx";

/** The keyboard map, with the switch of single letters. */
export function KeysSheet(props: { letters: boolean; setLetters: (on: boolean) => void; onClose: () => void }) {
  return (
    <Sheet label={shell.keys.title} place="dialog" onClose={props.onClose}>
      <div class="keys">
        <h2>{shell.keys.title}</h2>
        <dl>
          {shell.keys.rows.map(([keys, does]) => (
            <div key={keys}>
              <dt>
                <kbd>{keys.replace("Ctrl", COMMAND)}</kbd>
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <label class="check">
          <input
            type="checkbox"
            checked={props.letters}
            onChange={(event) => props.setLetters(event.currentTarget.checked)}
          />
          {shell.menu.letters}
        </label>
        <button type="button" class="act" onClick={props.onClose}>
          {shell.keys.close}
        </button>
      </div>
    </Sheet>
  );
}
