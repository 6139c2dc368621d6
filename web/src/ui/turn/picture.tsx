/**
 * A picture of the conversation in a box of a fixed size, so that nothing moves when it loads; a click opens it in the
 * preview.
 *
 * Its bytes are in memory only while it is nearly in view, so a long thread holds few of them. A file that cannot be
 * shown as a picture stays a link with its name.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import { isPlainClick, visible } from "../../markdown/index.ts";
import type { Acts } from "../acts.ts";
import { memo } from "./memo.tsx";

interface Props {
  /** Its logical path, "" while it has none. */
  readonly path: string;
  readonly href: string;
  readonly alt: string;
  /** A value that changes with the bytes at the path; "" prevents loading. */
  readonly version: string;
  readonly acts: Pick<Acts, "loadPicture" | "openFile">;
  /** As wide as the text, instead of a thumbnail. */
  readonly whole?: boolean;
}

const NEAR = "1200px";

export const Picture = memo(function Picture({ path, href, alt, version, acts, whole = false }: Props) {
  const [url, setUrl] = useState("");
  const place = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    const box = place.current;
    if (!box || !path || !version) return;
    let abort = new AbortController();
    let made = "";
    const drop = () => {
      abort.abort();
      URL.revokeObjectURL(made);
      made = "";
      setUrl("");
    };
    const load = async () => {
      abort = new AbortController();
      const { signal } = abort;
      const found = await acts.loadPicture(path, signal);
      if (signal.aborted) return URL.revokeObjectURL(found);
      made = found;
      setUrl(found);
    };
    const observer = new IntersectionObserver(
      (seen) => {
        drop();
        if (seen.at(-1)?.isIntersecting) void load();
      },
      { rootMargin: NEAR },
    );
    observer.observe(box);
    return () => {
      observer.disconnect();
      drop();
    };
  }, [path, version]);
  const name = visible(alt);
  const size = whole ? "thumb whole" : "thumb";
  if (!path) return <span class={size}>{name}</span>;
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    acts.openFile(path);
  };
  return (
    <a ref={place} class={size} href={href} title={name} onClick={open}>
      {url ? <img src={url} alt={name} onError={() => setUrl("")} /> : <bdi>{name}</bdi>}
    </a>
  );
});
