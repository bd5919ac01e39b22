/** A new session: the prompt, and everything else with its default shown. */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { createSession } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { system } from '../link/fleet.ts'
import { isText, jsonOf, listOf, textOf } from '../fold/shapes.ts'
import { act, outcomes, reasonAway } from '../ui/action.tsx'
import { sendPrompt } from '../ui/composer.tsx'
import { go, sessionLink } from '../ui/route.ts'
import { reveal } from '../text/reveal.ts'

const TOOLS = ['bash', 'read', 'write', 'edit', 'process'] as const

const POLICY = [
  { name: 'attemptsMax', says: 'attempts per step', usual: 6 },
  { name: 'failuresMax', says: 'failures per turn', usual: 60 },
  { name: 'waitMsMax', says: 'total wait between attempts, ms', usual: 1_800_000 },
  { name: 'stepsMax', says: 'steps per turn', usual: 200 },
  { name: 'patienceMs', says: 'patience for a model that is away, ms', usual: 120_000 },
  { name: 'livenessMs', says: 'longest silence of the model, ms', usual: 120_000 },
  { name: 'backoffMs', says: 'first wait between attempts, ms', usual: 500 },
  { name: 'parkMsMax', says: 'longest park, ms', usual: 86_400_000 },
] as const

/** Kept while the page lives: a lost connection must not cost what was typed, and a second press must not start a second turn. */
const kept = { prompt: '', workspace: '', model: '', sessionId: '', body: '' }

export function NewScreen(): VNode {
  const [prompt, setPrompt] = useState(kept.prompt)
  const [workspace, setWorkspace] = useState(kept.workspace)
  const [model, setModel] = useState(kept.model)
  const [tools, setTools] = useState<readonly string[]>(TOOLS)
  const [policy, setPolicy] = useState<Readonly<Record<string, string>>>({})
  useEffect(() => {
    document.title = 'New session · Breakfall'
  }, [])
  Object.assign(kept, { prompt, workspace, model })
  const data = system.value?.raw ?? {}
  const modelName = textOf(jsonOf(data['model'])['name'])
  const folders = listOf(data['workspaces']).filter(isText)
  const start = (): void => {
    if (prompt.trim() === '') return
    void act('new', 'new', async () => {
      const limits = Object.entries(policy).filter(([, value]) => value.trim() !== '')
      const body = {
        ...(workspace.trim() === '' ? {} : { box: { workspace: workspace.trim() } }),
        ...(model.trim() === '' ? {} : { model: model.trim() }),
        ...(tools.length === TOOLS.length ? {} : { tools: [...tools] }),
        ...(limits.length === 0
          ? {}
          : { policy: Object.fromEntries(limits.map(([name, value]) => [name, Number(value)])) }),
      }
      const text = JSON.stringify(body)
      if (kept.sessionId === '' || kept.body !== text) {
        kept.sessionId = (await createSession(daemon, body)).id
        kept.body = text
      }
      const id = kept.sessionId
      await sendPrompt(id, prompt.trim())
      Object.assign(kept, { prompt: '', sessionId: '', body: '' })
      go(sessionLink(id))
      return undefined
    })
  }
  return (
    <div class="page">
      <h1>New session</h1>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          start()
        }}
      >
        <div class="field">
          <label for="prompt">Prompt</label>
          <textarea
            id="prompt"
            rows={5}
            value={prompt}
            required
            onInput={(event) => setPrompt(event.currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="workspace">Folder</label>
          <input
            id="workspace"
            list="folders"
            value={workspace}
            placeholder="an empty private one"
            onInput={(event) => setWorkspace(event.currentTarget.value)}
          />
          <datalist id="folders">
            {folders.map((folder) => (
              <option key={folder} value={folder} />
            ))}
          </datalist>
          <small>
            {folders.length === 0
              ? 'This daemon allows no folder of this machine. Start it with --allow-workspace DIR.'
              : `Allowed: ${folders.map(reveal).join(', ')}, and every folder inside.`}
          </small>
        </div>
        <div class="field">
          <label for="model">Model</label>
          <input
            id="model"
            value={model}
            placeholder={modelName || 'the configured one'}
            onInput={(event) => setModel(event.currentTarget.value)}
          />
        </div>
        <fieldset>
          <legend>Tools</legend>
          {TOOLS.map((tool) => (
            <label key={tool} class="check">
              <input
                type="checkbox"
                checked={tools.includes(tool)}
                onChange={(event) =>
                  setTools(event.currentTarget.checked ? [...tools, tool] : tools.filter((one) => one !== tool))
                }
              />
              {tool}
            </label>
          ))}
        </fieldset>
        <details>
          <summary>Limits, with their defaults</summary>
          <div class="policy-grid">
            {POLICY.map(({ name, says, usual }) => (
              <label key={name}>
                {says}
                <input
                  type="number"
                  min="0"
                  value={policy[name] ?? ''}
                  placeholder={String(usual)}
                  onInput={(event) => setPolicy({ ...policy, [name]: event.currentTarget.value })}
                />
              </label>
            ))}
          </div>
        </details>
        <div class="row">
          <button
            type="submit"
            class="primary"
            aria-disabled={prompt.trim() === '' || reasonAway() !== null}
            title={reasonAway() ?? undefined}
          >
            Start
          </button>
          <span role="status">{outcomes.value['new']}</span>
        </div>
      </form>
    </div>
  )
}
