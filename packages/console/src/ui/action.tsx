/** Buttons that do something at the daemon: they show at once that they were pressed, and then what came of it. */
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { link } from '../link/connection.ts'
import { reveal, sentenceOf } from '../text/reveal.ts'
import { announce } from './announcer.tsx'

/** The last thing that an action reported, per subject: shown next to its buttons until the next press. */
export const outcomes = signal<Readonly<Record<string, string>>>({})

/** What a daemon answered may quote anything: hidden characters are shown. */
export function report(subject: string, said: string): void {
  const text = reveal(said)
  outcomes.value = { ...outcomes.peek(), [subject]: text }
  if (text !== '') announce(text)
}

const pending = signal<ReadonlySet<string>>(new Set())

/** Runs it once, however often it is pressed meanwhile. */
export async function act(key: string, subject: string, run: () => Promise<string | undefined>): Promise<void> {
  if (pending.peek().has(key)) return
  const away = reasonAway()
  if (away !== null) return report(subject, `${away} Nothing was sent.`)
  pending.value = new Set([...pending.peek(), key])
  report(subject, '')
  try {
    const done = await run()
    if (done !== undefined) report(subject, done)
  } catch (error) {
    report(subject, sentenceOf(error))
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

/** Asked first. `field`: what a person may type with the answer. */
export type Question = {
  readonly question: string
  readonly yes: string
  readonly no: string
  readonly field?: string
}

type ActionProps = {
  readonly id: string
  readonly subject: string
  readonly label: string
  readonly pendingLabel: string
  /** `words`: what the person typed, if the question has a field. */
  readonly run: (words: string) => Promise<string | undefined>
  readonly confirm?: Question | undefined
  readonly kind?: 'primary' | 'danger' | 'kill' | undefined
  readonly name?: string | undefined
}

export function Action({ id, subject, label, pendingLabel, run, confirm, kind, name }: ActionProps): VNode {
  const [isAsking, setAsking] = useState(false)
  const isPending = pending.value.has(id)
  const away = reasonAway()
  const wasAsked = useRef(false)
  const go = (words: string): void => {
    setAsking(false)
    void act(id, subject, () => run(words))
  }
  if (isAsking && confirm !== undefined) {
    wasAsked.current = true
    const { question, yes, no, field } = confirm
    return (
      <form
        class="row question"
        aria-label={question}
        onSubmit={(event) => {
          event.preventDefault()
          go(event.currentTarget.querySelector('input')?.value.trim() ?? '')
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          event.stopPropagation()
          setAsking(false)
        }}
      >
        <span>{question}</span>
        {field === undefined ? null : (
          <input aria-label={field} placeholder={field} maxLength={1_000} ref={focusOnce} />
        )}
        <button
          type="submit"
          class={kind === 'primary' ? 'primary' : 'danger'}
          ref={field === undefined ? focusOnce : ignore}
        >
          {yes}
        </button>
        <button type="button" onClick={() => setAsking(false)}>
          {no}
        </button>
      </form>
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
        if (confirm === undefined) go('')
        else setAsking(true)
      }}
      ref={(button) => {
        if (button === null || !wasAsked.current) return
        wasAsked.current = false
        button.focus() // the keyboard's focus does not move
      }}
    >
      {isPending ? pendingLabel : label}
    </button>
  )
}

/** Not created again with each countdown: that would take the focus again. */
function focusOnce(element: HTMLElement | null): void {
  element?.focus()
}

const ignore = (): void => undefined
