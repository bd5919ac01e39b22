/** Buttons that do something at the daemon: they show at once that they were pressed, and then what came of it. */
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { CallError } from '../link/api.ts'
import { link } from '../link/connection.ts'
import { announce } from './announcer.tsx'

/** The last thing that an action reported, per subject: shown next to its buttons until the next press. */
export const outcomes = signal<Readonly<Record<string, string>>>({})

export function report(subject: string, text: string): void {
  outcomes.value = { ...outcomes.peek(), [subject]: text }
  if (text !== '') announce(text)
}

const pending = signal<ReadonlySet<string>>(new Set())

/** Runs it once, however often it is pressed meanwhile. */
export async function act(key: string, subject: string, run: () => Promise<string | undefined>): Promise<void> {
  if (pending.peek().has(key) || reasonAway() !== null) return
  pending.value = new Set([...pending.peek(), key])
  report(subject, '')
  try {
    const done = await run()
    if (done !== undefined) report(subject, done)
  } catch (error) {
    report(
      subject,
      error instanceof CallError ? error.fault.error : error instanceof Error ? error.message : String(error),
    )
  } finally {
    pending.value = new Set([...pending.peek()].filter((one) => one !== key))
  }
}

/** Why nothing can be done now. */
export function reasonAway(): string | null {
  const { kind } = link.state.value
  if (kind === 'open') return null
  return kind === 'silent' ? 'The daemon is not answering.' : 'There is no connection to the daemon.'
}

type ActionProps = {
  readonly id: string
  readonly subject: string
  readonly label: string
  readonly pendingLabel: string
  readonly run: () => Promise<string | undefined>
  /** Asks first, with this question and this answer. */
  readonly confirm?: { readonly question: string; readonly yes: string } | undefined
  readonly kind?: 'primary' | 'danger' | 'kill' | undefined
  readonly name?: string | undefined
}

export function Action({ id, subject, label, pendingLabel, run, confirm, kind, name }: ActionProps): VNode {
  const [isAsking, setAsking] = useState(false)
  const isPending = pending.value.has(id)
  const away = reasonAway()
  const go = (): void => {
    setAsking(false)
    void act(id, subject, run)
  }
  if (isAsking && confirm !== undefined) {
    return (
      <span class="row" role="group" aria-label={confirm.question}>
        <span>{confirm.question}</span>
        <button type="button" class={kind === 'primary' ? 'primary' : 'danger'} onClick={go} ref={focusOnce}>
          {confirm.yes}
        </button>
        <button type="button" onClick={() => setAsking(false)}>
          Keep waiting
        </button>
      </span>
    )
  }
  return (
    <button
      type="button"
      class={kind}
      data-action={id.split(':')[0]}
      aria-label={name}
      aria-disabled={isPending || away !== null}
      title={away ?? undefined}
      onClick={() => {
        if (isPending || away !== null) return
        if (confirm === undefined) go()
        else setAsking(true)
      }}
    >
      {isPending ? pendingLabel : label}
    </button>
  )
}

function focusOnce(button: HTMLButtonElement | null): void {
  button?.focus()
}
