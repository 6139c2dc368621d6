/** Uploads one file: requests a slot, posts the form, and waits for the verdict. It runs in Node as well. */

import { ApiError, type UploadGrant, type UploadRequest, type UploadStatus } from "../api/index.ts";
import { ClientError, type Clock } from "../client/index.ts";

/** Pauses between two checks of a verdict; the last one repeats. */
const POLLS_MS = [200, 300, 500, 1000, 2000] as const;
const VERDICT_MS = 180_000;

export interface UploadApi {
  beginUpload(conversation: string, request: UploadRequest): Promise<UploadGrant>;
  getUpload(conversation: string, upload: string): Promise<UploadStatus>;
}

/** Return the bytes of base64. Throws ClientError `unsupported_part`. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    throw new ClientError("unsupported_part", "the data of a file must be base64");
  }
}

/** Return the id of a ready upload. Throws ApiError with the reason of a refusal, or `upload_pending`. */
export async function uploadFile(
  api: UploadApi,
  clock: Clock,
  conversation: string,
  file: Blob,
  filename: string,
): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  // The stage determines the type by the name and the bytes: browsers state wrong ones.
  const grant = await api.beginUpload(conversation, { filename, size_bytes: file.size, sha256 });
  await post(grant, file);
  const untilMs = clock.nowMs() + VERDICT_MS;
  for (let polls = 0; clock.nowMs() < untilMs; polls += 1) {
    const { state, reason = "refused", message = "" } = await api.getUpload(conversation, grant.upload);
    if (state === "ready") return grant.upload;
    if (state === "refused") throw new ApiError({ status: 422, code: reason, detail: message });
    const ms = POLLS_MS[Math.min(polls, POLLS_MS.length - 1)] ?? 0;
    await new Promise<void>((resolve) => {
      clock.after(ms, resolve);
    });
  }
  throw new ApiError({ status: 504, code: "upload_pending", detail: "The check of the file takes too long." });
}

async function post(grant: UploadGrant, file: Blob): Promise<void> {
  const form = new FormData();
  for (const [name, value] of Object.entries(grant.fields)) form.append(name, value);
  form.append("file", file);
  const response = await fetch(grant.url, { method: "POST", body: form, credentials: "omit" });
  if (response.ok) return;
  throw new ApiError({ status: response.status, code: "form_refused", detail: "The bucket refused the file." });
}
