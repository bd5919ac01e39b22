/** `streamAnswer` in a plain agent loop: deltas are appended, discarded parts dropped, tools run when released. */
import { POLICY_DEFAULTS } from '@breakfall/faults'
import { type Budget, type ChatMessage, streamAnswer } from '@breakfall/model'
import { BASH, type Player, RETRIES_MAX, STALL_MS } from './player.ts'

export const breakfall: Player = player('streamAnswer', POLICY_DEFAULTS.backoffMs)

/** With a tenth of the usual waits, a run has the same faults in a tenth of the time to recover from them. */
export const breakfallQuick: Player = player('streamAnswer, backoff × 0.1', POLICY_DEFAULTS.backoffMs / 10)

// ---- details ----

function player(name: string, backoffMs: number): Player {
  return {
    name,
    drives: 'library',
    package: '@breakfall/model',
    settings: `attemptsMax ${RETRIES_MAX + 1}, livenessMs ${STALL_MS}${backoffMs === POLICY_DEFAULTS.backoffMs ? '' : `, backoffMs ${backoffMs}`}`,
    async play({ baseUrl, model, prompt, bash, signal }) {
      const messages: ChatMessage[] = [{ role: 'user', content: prompt }]
      const texts: string[] = []
      let budget: Budget | undefined
      const policy = { attemptsMax: RETRIES_MAX + 1, livenessMs: STALL_MS, backoffMs, park: 'never' } as const
      for (;;) {
        const parts = new Map<string, string>()
        const calls: { callId: string; tool: string; arguments: Record<string, unknown> }[] = []
        const request = { baseUrl, model, messages, tools: [{ type: 'function', function: BASH }] } as const
        for await (const event of streamAnswer(request, { policy, signal, ...(budget && { budget }) })) {
          const part = 'part' in event ? `${event.attempt}/${event.part}` : ''
          if (event.type === 'text-delta') parts.set(part, (parts.get(part) ?? '') + event.text)
          else if (event.type === 'part-discarded') parts.delete(part)
          else if (event.type === 'tool-call') calls.push(event)
          else if (event.type === 'done') budget = event.budget
          else if (event.type === 'fault') throw new Error(`${event.fault.category}: ${event.fault.errorRaw}`)
        }
        const text = [...parts.values()].join('')
        texts.push(text)
        if (calls.length === 0) return { texts }
        const toolCalls = calls.map((call) => ({
          id: call.callId,
          type: 'function' as const,
          function: { name: call.tool, arguments: JSON.stringify(call.arguments) },
        }))
        messages.push({ role: 'assistant', content: text, tool_calls: toolCalls })
        for (const call of calls) {
          messages.push({ role: 'tool', tool_call_id: call.callId, content: bash(String(call.arguments['command'])) })
        }
      }
    },
  }
}
