/**
 * A file of the conversation: text, Markdown, a table, a picture, or a page without scripts. Any other file is a
 * download.
 */

import { Component, type ComponentChildren, type VNode } from "preact";
import { CodeBlock, Markdown, type MarkdownContext, visible } from "../markdown/index.ts";
import type { FileRow } from "../thread/thread.ts";
import { formatBytes } from "../words/index.ts";
import { CsvView } from "./csv_view.tsx";
import { HtmlFrame } from "./html_frame.tsx";
import { type Kind, kindOf } from "./kind.ts";
import { blobOf, fetchLink, type OpenFile } from "./load.ts";
import "./preview.css";
import { say } from "../words/en/preview.ts";

const TEXT_MAX_BYTES = 4_000_000;
const IMAGE_MAX_BYTES = 32_000_000;

interface Props {
  readonly file: FileRow;
  readonly open: OpenFile;
  onClose(): void;
  /** The conversation's address, for links and paths in a Markdown file. */
  readonly context?: MarkdownContext | undefined;
}

type Content =
  | { readonly is: "loading" }
  | { readonly is: "failed" }
  | { readonly is: "nothing"; readonly why: string }
  | { readonly is: "text"; readonly text: string }
  | { readonly is: "image"; readonly url: string }
  /**
   * The browser's own viewer shows it in a separate tab. In a frame, the page's policy would have to allow the host of
   * the files.
   */
  | { readonly is: "tab" };

interface State {
  readonly kind: Kind;
  readonly sizeBytes: number;
  readonly content: Content;
  readonly source: boolean;
}

const NOWHERE: MarkdownContext = {
  conversation: "",
  resolveSource: () => undefined,
  onCite: () => undefined,
  onOpenPath: () => undefined,
};

/** Return the reason why a file is not fetched at all, or "". */
function refusal(kind: Kind, sizeBytes: number): string {
  if (kind.is === "unknown") return say.unknown;
  return sizeBytes > (kind.is === "image" ? IMAGE_MAX_BYTES : TEXT_MAX_BYTES) ? say.tooLarge : "";
}

export class FilePreview extends Component<Props, State> {
  override state: State = { kind: { is: "unknown" }, sizeBytes: 0, content: { is: "loading" }, source: false };
  #abort = new AbortController();
  #url = "";

  override componentDidMount(): void {
    void this.#load();
  }

  override componentDidUpdate(before: Readonly<Props>): void {
    const { path, sha256 } = this.props.file;
    if (before.file.path !== path || before.file.sha256 !== sha256) void this.#load();
  }

  override componentWillUnmount(): void {
    this.#forget();
  }

  #forget(): void {
    this.#abort.abort();
    if (this.#url) URL.revokeObjectURL(this.#url);
    this.#url = "";
  }

  async #load(): Promise<void> {
    this.#forget();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const { mime, filename, sizeBytes } = this.props.file;
    const kind = kindOf(mime, filename);
    // For a file that the thread does not list, such as an attachment, the type comes from the link.
    const why = mime ? refusal(kind, sizeBytes) : "";
    this.setState({ kind, sizeBytes, source: false, content: why ? { is: "nothing", why } : { is: "loading" } });
    if (why) return;
    const content = await this.#fetch(signal).catch((): Content => ({ is: "failed" }));
    if (!signal.aborted) this.setState({ content });
    else if (content.is === "image") URL.revokeObjectURL(content.url);
  }

  async #fetch(signal: AbortSignal): Promise<Content> {
    const { path, mime, filename } = this.props.file;
    const link = await this.props.open(path, "preview");
    const kind = kindOf(mime || link.mime, filename);
    if (signal.aborted) return { is: "loading" };
    this.setState({ kind, sizeBytes: link.size_bytes });
    const why = refusal(kind, link.size_bytes);
    if (why) return { is: "nothing", why };
    if (kind.is === "pdf") return { is: "tab" };
    const bytes = await fetchLink(link, signal);
    if (kind.is !== "image") {
      const text = new TextDecoder().decode(bytes);
      return text === "" ? { is: "nothing", why: say.empty } : { is: "text", text };
    }
    const url = blobOf(kind, bytes);
    if (!signal.aborted) this.#url = url;
    return { is: "image", url };
  }

  /** Follow a fresh link in a separate tab; a download opens no tab. */
  #follow = async (disposition: "preview" | "download"): Promise<void> => {
    const link = await this.props.open(this.props.file.path, disposition).catch(() => null);
    if (!link) return this.setState({ content: { is: "failed" } });
    const anchor = document.createElement("a");
    anchor.href = link.url;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer";
    anchor.click();
  };

  #drawContent(): ComponentChildren {
    const { content, source, kind } = this.state;
    if (content.is === "loading") return <p class="aside">{say.loading}</p>;
    if (content.is === "nothing") return <p class="aside">{content.why}</p>;
    if (content.is === "tab") {
      return (
        <button type="button" class="again" onClick={() => void this.#follow("preview")}>
          {say.tab}
        </button>
      );
    }
    if (content.is === "failed") {
      return (
        <p class="aside" role="alert">
          {say.failed}{" "}
          <button type="button" class="again" onClick={() => void this.#load()}>
            {say.again}
          </button>
        </p>
      );
    }
    if (content.is === "image") {
      const fail = () => this.setState({ content: { is: "nothing", why: say.broken } });
      return <img class="picture" src={content.url} alt={visible(this.props.file.filename)} onError={fail} />;
    }
    if (source || kind.is === "text") {
      return (
        <CodeBlock code={content.text} language={kind.is === "text" ? kind.language : (SOURCES[kind.is] ?? "")} whole />
      );
    }
    if (kind.is === "csv") return <CsvView text={content.text} />;
    if (kind.is === "html") return <HtmlFrame text={content.text} />;
    return <Markdown text={content.text} growing={false} context={this.props.context ?? NOWHERE} />;
  }

  override render({ file, onClose }: Readonly<Props>): VNode {
    const { content, source, kind, sizeBytes } = this.state;
    const name = visible(file.filename);
    const twoWays = content.is === "text" && kind.is !== "text";
    return (
      <section class="preview" aria-label={say.preview(name)}>
        <header>
          <h2 dir="ltr" title={visible(file.path)}>
            {name}
          </h2>
          <span class="num">{formatBytes(sizeBytes)}</span>
          {twoWays && (
            <button type="button" aria-pressed={source} onClick={() => this.setState({ source: !source })}>
              {say.source}
            </button>
          )}
          <button type="button" onClick={() => void this.#follow("download")}>
            {say.download}
          </button>
          <button type="button" onClick={onClose}>
            {say.close}
          </button>
        </header>
        <div class="content">{this.#drawContent()}</div>
      </section>
    );
  }
}

/** The language for highlighting the source of a kind. */
const SOURCES: Readonly<Record<string, string>> = { html: "xml" };
