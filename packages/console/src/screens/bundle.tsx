/** A session from a file: the same screen as live, read-only, without a daemon. */
import { signal } from '@preact/signals'
import type { Session } from '@breakfall/wire'
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { fold } from '../fold/fold.ts'
import { emptyFold, type SessionFold } from '../fold/view.ts'
import { isJson, isSession } from '../fold/shapes.ts'
import { announce } from '../ui/announcer.tsx'
import { reveal, revealed } from '../text/reveal.ts'
import { TurnScreen } from '../turn/turn-screen.tsx'

type Bundle = {
  readonly view: SessionFold
  readonly session: Session | undefined
  readonly name: string
  readonly skipped: number
}

const opened = signal<Bundle | null>(null)

/** Reads NDJSON: a `bundle` line, then events as journalled. A line that is none of these is counted and skipped. */
export function readBundle(text: string, name: string): Bundle {
  const view = emptyFold()
  let session: Session | undefined
  let skipped = 0
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue
    const value = parsed(line)
    if (isJson(value) && value['event'] === 'bundle')
      session = isSession(value['session']) ? value['session'] : undefined
    else if (isJson(value) && typeof value['seq'] === 'number') fold(view, value)
    else if (!(isJson(value) && 'event' in value)) skipped += 1
  }
  return { view, session, name, skipped }
}

export function BundleScreen(): VNode {
  const bundle = opened.value
  const [problem, setProblem] = useState('')
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return
    const read = readBundle(await file.text(), file.name)
    if (read.view.turns.length === 0) return setProblem(`There are no events of a session in ${reveal(file.name)}.`)
    opened.value = read
    announce(`Opened ${file.name}.`)
  }
  if (bundle !== null)
    return (
      <>
        <div class="bar">
          <strong>bundle</strong>
          <span class="isolate">
            {reveal(bundle.name)}, read-only{bundle.skipped === 0 ? '' : `; ${bundle.skipped} lines could not be read`}
          </span>
          <button type="button" class="quiet" onClick={() => (opened.value = null)}>
            Close it
          </button>
        </div>
        <TurnScreen
          view={bundle.view}
          rev={bundle.view.rev}
          session={bundle.session}
          route={{ screen: 'session', id: bundle.session?.id ?? '', turnId: null, focus: {} }}
          isReadOnly
          earlier={0}
          onEarlier={() => undefined}
        />
      </>
    )
  return (
    <div class="page">
      <h1>Open a bundle</h1>
      <div
        class="drop"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault()
          void take(event.dataTransfer?.files[0])
        }}
      >
        <p>
          Drop an exported session here: a file from <code>breakfall export</code> or from the export button. It stays
          in this page.
        </p>
        <input
          type="file"
          aria-label="Choose a file"
          accept=".ndjson,.jsonl,.json,.txt"
          onChange={(event) => void take(event.currentTarget.files?.[0])}
        />
        {problem === '' ? null : <p role="status">{problem}</p>}
      </div>
    </div>
  )
}

function parsed(line: string): unknown {
  try {
    return revealed(JSON.parse(line))
  } catch {
    return null // counted by the caller
  }
}
