/** Posts an upload form to the bucket, without a token, and reports its progress. */

import { ApiError } from "./transport.ts";
import type { UploadGrant } from "./types.ts";

/** An error code of S3. Source: docs.aws.amazon.com/AmazonS3, "REST error responses". */
const CODE = /<Code>(\w{1,64})<\/Code>/;

/**
 * Post a file with its grant; `progress` receives the share that was sent, from 0 to 1.
 *
 * Throws ApiError: `form_refused` if the bucket does not accept the form, or a file of this size or type;
 * `api_unreachable`.
 */
export function postForm(
  grant: UploadGrant,
  file: Blob,
  { progress = () => {}, signal }: { progress?: (part: number) => void; signal?: AbortSignal } = {},
): Promise<void> {
  const form = new FormData();
  for (const [name, value] of Object.entries(grant.fields)) form.append(name, value);
  form.append("file", file);
  return new Promise((resolve, reject) => {
    // fetch does not report how much of a body was sent.
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => {
      const { status } = request;
      if (status >= 200 && status < 300) return resolve();
      const said = CODE.exec(request.responseText)?.[1] ?? "nothing";
      reject(new ApiError({ status, code: "form_refused", detail: `The bucket said ${said}.` }));
    };
    request.onerror = () =>
      reject(new ApiError({ status: 0, code: "api_unreachable", detail: "The bucket does not answer." }));
    request.onabort = () => reject(signal?.reason);
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    signal?.throwIfAborted();
    request.open("POST", grant.url);
    request.send(form);
  });
}
