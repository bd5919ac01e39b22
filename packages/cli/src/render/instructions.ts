/** Which of the project's files a turn sends to the model, in one line. Pure. */
import type { InstructionsFile } from '@breakfall/wire'

/** Undefined if there are none. */
export function instructionsLine(files: readonly InstructionsFile[] = []): string | undefined {
  return files.length === 0 ? undefined : `instructions: ${files.map(described).join(', ')}`
}

// ---- details ----

function described({ path, bytes, sentBytes, refused }: InstructionsFile): string {
  if (refused?.startsWith(AT_RUNNER) === true) return `the model reads ${path} at the runner, if there is one`
  if (refused !== undefined) return `${path} (not sent: it ${refused})`
  if (sentBytes < bytes) return `${path} (cut: ${size(sentBytes)} of ${size(bytes)})`
  return `${path} (${size(bytes)})`
}

/** Nothing went wrong: a runner's files cannot be read before the first tool call. */
const AT_RUNNER = 'is on the machine of the runner'

const size = (bytes: number): string => (bytes < 1024 ? `${bytes} bytes` : `${(bytes / 1024).toFixed(1)} KiB`)
