/** The first screen of a new daemon: what to do, never an empty table. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { createSession } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { system } from '../link/fleet.ts'
import { go, sessionLink } from '../ui/route.ts'
import { act, outcomes, reasonAway } from '../ui/action.tsx'
import { sendPrompt } from '../ui/composer.tsx'

/** The session of a prompt that was not accepted yet: a second press must not make a second session. */
let created = ''

export function StartPanel(): VNode {
  const [prompt, setPrompt] = useState('')
  const start = (): void => {
    const text = prompt.trim()
    if (text === '') return
    void act('start', 'start', async () => {
      created ||= (await createSession(daemon, {})).id
      const id = created
      await sendPrompt(id, text)
      created = ''
      go(sessionLink(id))
      return undefined
    })
  }
  return (
    <div class="start">
      <section class="card" aria-labelledby="start-here">
        <h2 id="start-here">No sessions yet</h2>
        <form
          onSubmit={(event) => {
            event.preventDefault()
            start()
          }}
        >
          <label for="first-prompt" class="sr">
            First prompt
          </label>
          <textarea
            id="first-prompt"
            rows={3}
            placeholder="What should be done?"
            value={prompt}
            onInput={(event) => setPrompt(event.currentTarget.value)}
          />
          <div class="row">
            <button type="submit" class="primary" aria-disabled={prompt.trim() === '' || reasonAway() !== null}>
              Start
            </button>
            <a href="#/new">with a folder, a model, tools…</a>
          </div>
          <p role="status">{outcomes.value['start']}</p>
        </form>
      </section>
      {system.value?.chaos === true ? <WatchDemo /> : <FromTerminal />}
    </div>
  )
}

/** A demo has its own folder: what a terminal starts does not appear in it. */
const WatchDemo = (): VNode => (
  <section class="card" aria-labelledby="start-demo">
    <h2 id="start-demo">This is a demo</h2>
    <p>It has its own sessions, apart from those of your terminal.</p>
    <a class="button" href="#/demo">
      Watch a rehearsal
    </a>
    <OpenBundle />
  </section>
)

const FromTerminal = (): VNode => (
  <section class="card" aria-labelledby="start-terminal">
    <h2 id="start-terminal">From a terminal</h2>
    <pre class="code" tabIndex={0}>
      breakfall run "make the failing test pass"
    </pre>
    <p class="muted">It appears here while it runs.</p>
    <p>
      No model yet? <code>breakfall demo</code> opens a page like this with a rehearsal and buttons that break things.
    </p>
    <OpenBundle />
  </section>
)

const OpenBundle = (): VNode => <a href="#/bundle">Open an exported session</a>
