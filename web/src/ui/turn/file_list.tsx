/** Files in the thread: those that came with a message, and those that a turn has created. Pictures are shown. */

import { visible } from "../../markdown/index.ts";
import { isPicture } from "../../thread/files.ts";
import { say } from "../../words/en/thread.ts";
import { formatBytes } from "../../words/format.ts";
import { PathLink } from "./bits.tsx";
import { useDesk } from "./desk.ts";
import { Icon } from "./mark.tsx";
import { Picture } from "./picture.tsx";

interface Named {
  readonly path: string;
  readonly filename: string;
  readonly mime: string;
  readonly sizeBytes: number;
  /** For a file that can be written again. */
  readonly sha256?: string;
}

interface Props {
  readonly label: string;
  readonly files: readonly Named[];
  readonly icon: "clip" | "file";
}

export function FileList({ label, files, icon }: Props) {
  const desk = useDesk();
  if (files.length === 0) return null;
  return (
    <ul class="attached" aria-label={label}>
      {files.map((file, at) => (
        <li key={file.path || at} class={isPicture(file.mime) ? "" : "file"}>
          {isPicture(file.mime) ? (
            <Picture
              path={file.path}
              href={desk.pathHref(file.path)}
              alt={file.filename}
              version={file.sha256 ?? "whole"}
              acts={desk.acts}
            />
          ) : (
            <>
              <Icon of={icon} />
              {file.path ? <PathLink path={file.path} /> : <bdi>{visible(file.filename)}</bdi>}
              <span class="num">{formatBytes(file.sizeBytes)}</span>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The files that a turn has created, without the pictures that its answer shows. */
export function MadeFiles({ files, answer }: { files: readonly Named[]; answer: string }) {
  const others = files.filter((file) => !isPicture(file.mime) || !answer.includes(`](${file.path})`));
  return <FileList label={say.madeFiles(others.length)} files={others} icon="file" />;
}
