/** The conversation as a model reads it (OpenAI's chat format), and what is dropped when it has grown too long. */
import type { Entry, SessionFold } from './state.ts'

export type ChatMessage =
  | { role: 'system'; content: string }
  | { role: 'user'; content: string }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatToolCall[] }
  | { role: 'tool'; tool_call_id: string; content: string }

type ChatToolCall = { id: string; type: 'function'; function: { name: string; arguments: string } }

export function toMessages(state: SessionFold, system: string): ChatMessage[] {
  return [{ role: 'system', content: system }, ...state.entries.map((entry) => messageOf(entry, state.dropped))]
}

/** Which results to drop to make the rest fit: the oldest half by size, never the last one. Empty if there is nothing to drop. */
export function resultsToDrop(state: SessionFold): readonly string[] {
  const results = state.entries
    .filter((entry) => entry.role === 'tool')
    .filter(({ callId }) => !state.dropped.has(callId))
  const total = results.reduce((sum, entry) => sum + entry.text.length, 0)
  const chosen: string[] = []
  let chars = 0
  for (const entry of results.slice(0, -1)) {
    if (chars * 2 >= total) break
    chosen.push(entry.callId)
    chars += entry.text.length
  }
  return chosen
}

// ---- details ----

const DROPPED = '[This result was dropped to make room. Run the tool again if you still need it.]'

function messageOf(entry: Entry, dropped: ReadonlySet<string>): ChatMessage {
  switch (entry.role) {
    case 'user':
      return { role: 'user', content: entry.text }
    case 'tool':
      return { role: 'tool', tool_call_id: entry.callId, content: dropped.has(entry.callId) ? DROPPED : entry.text }
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
