/**
 * The table of known failure messages, one row each: the pattern, how far to trust it, and the advice.
 * Every row is tested against its real sample in `fixtures/signatures.jsonl`, alone and after log prefixes.
 *
 * I1  A line has one name: that of the first row that matches.
 * I2  A cheap word test accepts every sample, so an ordinary line costs one test instead of one per row.
 * I3  Only the two ends of a long line are searched, and no pattern looks more than 400 characters ahead: a hostile line costs
 *     milliseconds, not minutes.
 */
import { GPU_SIGNATURES } from './signatures/gpu.ts'
import { LANGUAGES_SIGNATURES } from './signatures/languages.ts'
import { LLAMA_CPP_SIGNATURES } from './signatures/llama-cpp.ts'
import { MODEL_SERVERS_SIGNATURES } from './signatures/model-servers.ts'
import { OLLAMA_SIGNATURES } from './signatures/ollama.ts'
import type { Signature } from './signatures/row.ts'
import { SYSTEM_SIGNATURES } from './signatures/system.ts'
import { TOOL_LAUNCHERS_SIGNATURES } from './signatures/tool-launchers.ts'

export const SIGNATURES: readonly Signature[] = [
  ...TOOL_LAUNCHERS_SIGNATURES,
  ...OLLAMA_SIGNATURES,
  ...LLAMA_CPP_SIGNATURES,
  ...MODEL_SERVERS_SIGNATURES,
  ...GPU_SIGNATURES,
  ...LANGUAGES_SIGNATURES,
  ...SYSTEM_SIGNATURES,
]

/** The row for this line, whose prefix and colours were already removed. */
export function matchSignature(text: string): Signature | undefined {
  if (text.length > 2 * PART_CHARS_MAX) {
    return matchSignature(text.slice(0, PART_CHARS_MAX)) ?? matchSignature(text.slice(-PART_CHARS_MAX)) // I3
  }
  if (!WORDS.test(text)) return undefined // I2
  return SIGNATURES.find((row) => row.pattern.test(text)) // I1
}

// ---- details ----

const PART_CHARS_MAX = 4_096

/** Every message that has a row contains at least one of these. */
const WORDS =
  /err|fail|abort|assert|memory|killed|panic|cannot|couldn't|can't|not found|died|denied|exceed|unable|timed? ?out|missing|crash|unknown|corrupt|gated|in use|fault|lost|signal|module|busy|required|only one usage|no solution|bad option|no backends|exec|current device|illegal|initialize|not loaded|gpu|different node|inconsisten|enoent|eacces|no such file|exit ?code|unavailable/i
