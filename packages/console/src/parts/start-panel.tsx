/** The first screen of a new daemon: what to do, never an empty table. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { createSession } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { system } from '../link/fleet.ts'
import { go, sessionLink } from '../route.ts'
import { act, outcomes, reasonAway } from './action.tsx'
import { sendPrompt } from './composer.tsx'

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
      <section class="card" aria-labelledby="start-terminal">
        <h2 id="start-terminal">From a terminal</h2>
        <pre class="code" tabIndex={0}>
          {'breakfall run "make the failing test pass"\nbreakfall run --rehearsal'}
        </pre>
        <p class="muted">Both appear here while they run. The second needs no model: it rehearses failures.</p>
        {system.value?.chaos === true ? (
          <a class="button" href="#/demo">
            Watch a rehearsal
          </a>
        ) : (
          <p>
            <code>breakfall demo</code> opens this page with buttons that break things.
          </p>
        )}
        <a href="#/bundle">Open an exported session</a>
      </section>
    </div>
  )
}
