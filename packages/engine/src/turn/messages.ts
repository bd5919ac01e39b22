/** The conversation as a model reads it (OpenAI's chat format), and how long it is. */
import type { ChatMessage, ToolSpec } from '@breakfall/model'
import type { Entry } from './state.ts'

export function toMessages(entries: readonly Entry[], system: string): readonly ChatMessage[] {
  const at = entries.findIndex((entry) => entry.role === 'summary')
  if (at === -1) return [{ role: 'system', content: system }, ...entries.map(messageOf)]
  // One message of the user before the next answer: some servers refuse two in a row.
  const next = entries.findIndex((entry, index) => index > at && entry.role !== 'user')
  const end = next === -1 ? entries.length : next
  const opening = entries.slice(0, end).map(openingText).join('\n\n')
  return [{ role: 'system', content: system }, { role: 'user', content: opening }, ...entries.slice(end).map(messageOf)]
}

/** Size of the conversation in a request. */
export function conversationBytes(entries: readonly Entry[]): number {
  let bytes = 0
  for (const entry of entries) bytes += entryBytes(entry)
  return bytes
}

/** Size of everything in a request that is the same in every step. */
export const fixedBytes = (system: string, tools: readonly ToolSpec[]): number =>
  jsonBytes({ messages: [{ role: 'system', content: system }], tools })

/** Size of one entry in a request. */
export function entryBytes(entry: Entry): number {
  const known = SIZES.get(entry)
  if (known !== undefined) return known
  const bytes = jsonBytes(messageOf(entry)) + 1 // the comma
  SIZES.set(entry, bytes)
  return bytes
}

// ---- details, in the order they are used above ----

/** Entries never change: each is turned into a message and measured once, however many steps read it. */
const MESSAGES = new WeakMap<Entry, ChatMessage>()
const SIZES = new WeakMap<Entry, number>()

function messageOf(entry: Entry): ChatMessage {
  const known = MESSAGES.get(entry)
  if (known !== undefined) return known
  const message = Object.freeze(newMessage(entry)) // its JSON is then made once
  MESSAGES.set(entry, message)
  return message
}

function newMessage(entry: Entry): ChatMessage {
  switch (entry.role) {
    case 'user':
    case 'summary':
      return { role: 'user', content: openingText(entry) }
    case 'tool':
      return { role: 'tool', tool_call_id: entry.callId, content: entry.text }
    case 'assistant': {
      if (entry.calls.length === 0) return { role: 'assistant', content: entry.text }
      const calls = entry.calls.map(({ callId, tool, arguments: given }) => ({
        id: callId,
        type: 'function' as const,
        function: { name: tool, arguments: JSON.stringify(given) },
      }))
      return { role: 'assistant', content: entry.text === '' ? null : entry.text, tool_calls: calls }
    }
  }
}

const openingText = (entry: Entry): string =>
  entry.role === 'summary' ? `[Summary of the steps up to here]\n${entry.text}\n[End of the summary]` : entry.text

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))
