/**
 * Which turns are working in which host folders: two turns that change the same files at once spoil each other's work.
 *
 * I1  Asking and taking is one step without a wait in between, so of two prompts at the same moment the second knows of the first.
 * I2  Only a turn that is working counts. A parked turn, and a turn that no daemon drives, hold nothing: no crash blocks a folder.
 * I3  A folder inside another one is the same place, and so is a link to it.
 */
import { realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { once } from 'node:events'
import { Fault } from '@breakfall/faults'
import { isDaemonShutdown } from '@breakfall/wire/turn'
import type { SameFolder } from '@breakfall/wire'
import type { SessionData } from '../rows.ts'
import type { QueuedTurn, SessionFold, TurnFold } from '../turn/state.ts'

/** The turn that works in the folder. */
export type Behind = { readonly sessionId: string; readonly turnId: string; readonly workspace: string }

/** What is asked about a session in memory. */
type Worker = {
  readonly id: string
  readonly data: Pick<SessionData, 'box'>
  readonly fold: Pick<SessionFold, 'turn' | 'queue'>
  readonly isLost: boolean
  readonly signal: AbortSignal
}

type Use = { readonly turnId: string; readonly folder: string; readonly workspace: string }

export class Folders {
  readonly #using = new Map<Worker, Use>()
  readonly #changed = new EventTarget()

  /** For a turn that is about to start: takes the folder (I1), or says behind whom the turn has to wait. */
  enter(session: Worker, turnId: string, mode: SameFolder): Behind | undefined {
    const { workspace } = session.data.box
    if (workspace === undefined) return undefined
    const behind = mode === 'share' ? undefined : this.#holder(session)
    if (behind !== undefined && mode === 'refuse') throw refusal(behind)
    if (behind === undefined) this.#using.set(session, { turnId, folder: realFolder(workspace), workspace })
    return behind
  }

  /** After every commit and every load: a turn that has ended or parked leaves its folder (I2). */
  update(session: Worker): void {
    const { turn } = session.fold
    const { workspace } = session.data.box
    if (turn !== null && isWorking(turn) && workspace !== undefined && !session.isLost) {
      if (this.#using.get(session)?.turnId !== turn.id)
        this.#using.set(session, { turnId: turn.id, folder: realFolder(workspace), workspace })
      return
    }
    this.#using.delete(session)
    this.#changed.dispatchEvent(new Event('changed'))
  }

  /** Waits until the queued turn may start, and takes the folder for it. False if it must not start any more. */
  async untilFree(session: Worker, { id, isBehind }: QueuedTurn): Promise<boolean> {
    while (!session.signal.aborted && session.fold.queue[0]?.id === id) {
      if (this.enter(session, id, isBehind ? 'wait' : 'share') === undefined) return true
      await once(this.#changed, 'changed', { signal: session.signal }).catch(() => undefined) // aborted: the loop sees it
    }
    return false
  }

  #holder(session: Worker): Behind | undefined {
    const folder = realFolder(session.data.box.workspace ?? '')
    for (const [other, use] of this.#using) {
      if (other !== session && overlaps(use.folder, folder))
        return { sessionId: other.id, turnId: use.turnId, workspace: use.workspace }
    }
    return undefined
  }
}

/** I3. Pure. */
export const overlaps = (a: string, b: string): boolean => `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`)

// ---- details ----

/** A turn that one daemon hands over to the next continues at once. */
const isWorking = ({ parked }: TurnFold): boolean => parked === null || isDaemonShutdown(parked.fault.category)

/** Without its trailing slash, so `/` is the empty text. On a runner elsewhere, links cannot be followed. */
function realFolder(path: string): string {
  const whole = resolve(path)
  try {
    return realpathSync(whole).replace(/\/$/, '')
  } catch {
    return whole.replace(/\/$/, '') // not on this machine, or gone: compared as written
  }
}

const refusal = ({ sessionId, turnId, workspace }: Behind): Fault =>
  new Fault('session_busy', {
    error: `Session ${sessionId} is working in ${workspace}, so nothing started here. Wait for it, cancel it (breakfall cancel ${sessionId}), or work at the same time with --share.`,
    errorRaw: `turn ${turnId} uses an overlapping folder`,
    turnId,
  })
