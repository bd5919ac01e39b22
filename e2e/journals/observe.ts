/** What API, command line and page show of the sessions in a store. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startDaemon } from '@breakfall/daemon'
import type { Session, SessionEvent, Turn } from '@breakfall/wire'
import { TurnView } from '../../packages/cli/src/render/turn-view.ts'
import { fold } from '../../packages/console/src/fold/fold.ts'
import { emptyFold, isSurvivable, survivedIn, type TurnView as PageTurn } from '../../packages/console/src/fold/view.ts'
import { reduce } from '../../packages/engine/src/turn/reduce.ts'
import { faultNotesOf } from '../../packages/engine/src/turn/fault-history.ts'
import { EMPTY_FOLD, type SessionFold } from '../../packages/engine/src/turn/state.ts'
import { turnView } from '../../packages/engine/src/turn/view.ts'

export type Bundle = { readonly session: Session; readonly turns: readonly Turn[]; readonly lines: readonly string[] }

/** The sessions as a daemon exports them that continues none of them. */
export async function bundlesOf(stateDir: string, ids: readonly string[]): Promise<readonly Bundle[]> {
  const daemon = await startDaemon({
    stateDir,
    model: { baseUrl: 'http://127.0.0.77:9', name: 'none' },
    recover: 'requested',
    isMomentary: true,
    logLevel: 'silent',
  })
  try {
    const texts = await Promise.all(
      ids.map(async (id) => {
        const headers = { authorization: `Bearer ${daemon.token}` }
        const answer = await fetch(`${daemon.url}/v1/sessions/${id}/export`, { headers })
        return answer.text()
      }),
    )
    return texts.map((text) => {
      const [head = '', ...lines] = text.trimEnd().split('\n')
      return { ...(JSON.parse(head) as Pick<Bundle, 'session' | 'turns'>), lines }
    })
  } finally {
    await daemon.close({ stopRunner: true })
  }
}

/** What `breakfall` prints about each session without a daemon: `show`, and `tail` to its last event. */
export async function printedOf(
  stateDir: string,
  ids: readonly string[],
): Promise<readonly { readonly show: readonly string[]; readonly tail: readonly string[] }[]> {
  const flags = ['--state-dir', stateDir]
  const commands = ids.flatMap((id) => [
    ['show', id, ...flags],
    ['tail', id, '--no-follow', ...flags],
  ])
  const program = fileURLToPath(new URL('commands.ts', import.meta.url))
  const env = { PATH: process.env['PATH'], HOME: stateDir, TZ: 'UTC' }
  const { stdout } = await promisify(execFile)(process.execPath, [program, JSON.stringify(commands)], {
    env,
    maxBuffer: 2 ** 26,
  })
  const texts = (JSON.parse(stdout) as readonly string[]).map((text) =>
    text
      .trimEnd()
      .replaceAll(/\d+ \w+ ago/g, 'some time ago')
      .split('\n'),
  )
  return ids.map((_, n) => ({ show: texts[2 * n] ?? [], tail: texts[2 * n + 1] ?? [] }))
}

type Survived = { readonly api: number; readonly cli: number; readonly page: number }

/** How many faults each turn has survived, by each reader of its events. */
export function survivedBy(events: readonly SessionEvent[], turns: readonly Turn[]): readonly Survived[] {
  const page = emptyFold()
  for (const event of events) fold(page, event)
  return turns.map(({ id, faultsSurvived = 0 }) => {
    const view = new TurnView()
    for (const event of events) if (event.turnId === id) view.replay(event)
    const turn = page.byId.get(id)
    return { api: faultsSurvived, cli: view.survived.length, page: turn === undefined ? 0 : survivedIn(turn) }
  })
}

/** The views of its turns as the events fold into them: what the daemon stored when it wrote the last event of each. */
export function refolded(events: readonly SessionEvent[]): ReadonlyMap<string, Turn> {
  const views = new Map<string, Turn>()
  let state: SessionFold = EMPTY_FOLD
  for (const event of events) {
    state = reduce(state, event)
    const view = turnView(state, event.sessionId, event.turnId, null)
    if (view !== undefined) views.set(event.turnId, view)
  }
  return views
}

/** The faults that `breakfall doctor` and the page's list of faults count: sequence number, category, and what became of them. */
export const seenIn = (events: readonly SessionEvent[]): readonly string[] =>
  (faultNotesOf(events)?.seen ?? []).map(({ seq, category, became }) => `${seq} ${category} ${became}`)

/** The page's turns, without what is empty. A fault is its category, the contents of a note are the number of its event. */
export function pageOf(events: readonly unknown[]): unknown {
  const page = emptyFold()
  for (const event of events) fold(page, event)
  return JSON.parse(
    JSON.stringify(page.turns.map(flat), (key, value: unknown) => {
      if (key === 'rev') return undefined
      if (value === null || value === '' || value === false || (Array.isArray(value) && value.length === 0))
        return undefined
      if (typeof value !== 'object') return value
      if ('seq' in value && 'sessionId' in value) return value.seq
      return 'errorRaw' in value && 'category' in value ? value.category : value
    }),
  )
}

// ---- details ----

/** As the page kept it when the expected files were written. */
const flat = ({ status: { state, faults, unknownOutcomes }, scars, ...turn }: PageTurn): object => {
  const healed = new Set(scars.filter(isSurvivable).slice(0, faults.met - faults.open))
  return {
    ...turn,
    state,
    unknownOutcomes,
    scars: scars.map((scar) => ({ ...scar, counts: isSurvivable(scar), healed: healed.has(scar) })),
  }
}
