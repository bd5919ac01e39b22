/** The verdict on a run, from what a person would see and what the tools did. Pure. */
import { answerTo, createStepsTool, type Message, scriptFor } from '@breakfall/chaos/internal'

/**
 * exact: every step's text once, every tool once and in order. shown twice: nothing is missing and the tools are right, but some
 * text is on the screen twice. lost: it ended as if all were well, and text or a tool is missing or wrong. error: it stopped and
 * said so. hang: nothing happened any more.
 */
export const VERDICTS = ['exact', 'shown twice', 'lost', 'error', 'hang'] as const
export type Verdict = (typeof VERDICTS)[number]

export type Expected = { readonly texts: readonly string[]; readonly log: string }

/** The run without any fault. */
export function expectedOf(model: string, prompt: string): Expected {
  const script = scriptFor(model, prompt)
  if (script === undefined) throw new Error(`no script for ${model}`)
  const tool = createStepsTool()
  const conversation: Message[] = [{ role: 'user', text: prompt, calls: [], callId: null }]
  const texts: string[] = []
  for (;;) {
    const { text, calls } = answerTo(script, conversation, null)
    texts.push(text)
    if (calls.length === 0) return { texts, log: tool.log }
    conversation.push({ role: 'assistant', text, calls, callId: null })
    for (const call of calls) {
      const result = tool.bash(String(call.arguments['command']))
      conversation.push({ role: 'tool', text: result, calls: [], callId: call.id })
    }
  }
}

export function verdictOf(expected: Expected, texts: readonly string[], log: string): Verdict {
  const areToolsRight = log === expected.log && texts.at(-1) === expected.texts.at(-1)
  if (areToolsRight && texts.join('\n') === expected.texts.join('\n')) return 'exact'
  const isAllThere = expected.texts.every((text) => texts.some((shown) => shown.includes(text)))
  return areToolsRight && isAllThere ? 'shown twice' : 'lost'
}
