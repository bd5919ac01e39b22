/** Where a person types the next prompt. What was typed stays while the connection is gone. */
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { prompt as startTurn } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { act, outcomes, reasonAway } from './action.tsx'

/** Drafts outlive the component: a reset, another screen and a lost connection keep them. */
const drafts = signal<Readonly<Record<string, string>>>({})
/** A key stays with its prompt until the receipt came, so a prompt that is sent twice runs once. */
const keys = new Map<string, { readonly prompt: string; readonly key: string }>()

type ComposerProps = { readonly sessionId: string; readonly isBusy: boolean }

export function Composer({ sessionId, isBusy }: ComposerProps): VNode {
  const draft = drafts.value[sessionId] ?? ''
  const away = reasonAway()
  const subject = `prompt:${sessionId}`
  const set = (text: string): void => {
    drafts.value = { ...drafts.peek(), [sessionId]: text }
  }
  const send = (): void => {
    const prompt = draft.trim()
    if (prompt === '') return
    void act(`${subject}:send`, subject, async () => {
      await sendPrompt(sessionId, prompt)
      if ((drafts.peek()[sessionId] ?? '').trim() === prompt) set('')
      return isBusy ? 'Queued: it runs after the current turn.' : undefined
    })
  }
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <textarea
        id="composer"
        rows={1}
        value={draft}
        aria-label={isBusy ? 'Queue another prompt' : 'Next prompt'}
        placeholder={isBusy ? 'Queue another prompt…' : 'Next prompt…'}
        onInput={(event) => set(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault()
            send()
          }
        }}
      />
      <button
        type="submit"
        class="primary"
        aria-disabled={away !== null || draft.trim() === ''}
        title={away ?? undefined}
      >
        {isBusy ? 'Queue' : 'Send'}
      </button>
      {away === null && !outcomes.value[subject] ? null : (
        <div class="said">{away === null ? outcomes.value[subject] : `${away} Your text is kept.`}</div>
      )}
    </form>
  )
}

/** Starts or queues a turn, once. */
export async function sendPrompt(sessionId: string, prompt: string): Promise<string> {
  const known = keys.get(sessionId)
  const entry = known?.prompt === prompt ? known : { prompt, key: crypto.randomUUID() }
  keys.set(sessionId, entry)
  const { turnId } = await startTurn(daemon, sessionId, prompt, { key: entry.key, queue: true })
  keys.delete(sessionId)
  return turnId
}
