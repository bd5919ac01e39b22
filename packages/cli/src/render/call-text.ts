/** A tool call as a person approves it: to its end, or with a line that says how much is missing. Pure. */
import { reveal } from '@breakfall/wire/browser'

const CHARS_MAX = 2_000 // less than one screen, so the start of a call is still there when its question is

export type CallText = { readonly text: string; readonly isCut: boolean }

/** In JSON a call has no line break of its own, so it cannot imitate the line that says what is missing. */
export function callText(tool: string, args: unknown, charsMax = CHARS_MAX): CallText {
  const whole = reveal(`${tool} ${JSON.stringify(args)}`)
  if (whole.length <= charsMax) return { text: whole, isCut: false }
  const half = Math.floor(charsMax / 2)
  const missing = (whole.length - 2 * half).toLocaleString('en-US')
  const [head, tail] = [whole.slice(0, half), whole.slice(-half)].map((part) => part.toWellFormed())
  return { text: `${head}\n⟦ ${missing} characters are not shown here ⟧\n${tail}`, isCut: true }
}
