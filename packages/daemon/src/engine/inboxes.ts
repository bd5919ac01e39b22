/** Carries out what other daemons ask of the sessions that this one owns: when a hint arrives, and once a second anyway. */
import { isFault } from '@breakfall/faults'
import type { CommandRow, Inbox } from '../store/sharing.ts'
import type { LiveSession } from './live-session.ts'
import type { SessionLoader } from './loader.ts'
import { Poll } from './poll.ts'
import type { Ports } from './ports.ts'

/** Writes the command's outcome together with what it does. Rejects only if nothing was written. */
export type CarryOut = (session: LiveSession, command: CommandRow) => Promise<void>

export class Inboxes {
  readonly #ports: Ports
  readonly #loader: SessionLoader
  readonly #carryOut: CarryOut
  readonly #busy = new Set<string>()
  readonly #poll: Poll
  readonly #unlisten: () => void

  constructor(ports: Ports, loader: SessionLoader, carryOut: CarryOut) {
    this.#ports = ports
    this.#loader = loader
    this.#carryOut = carryOut
    this.#poll = new Poll(
      () => (ports.store.hints.isUp ? POLL_MS : POLL_MS_WITHOUT_HINTS),
      () => this.#look(),
    )
    this.#unlisten = ports.store.hints.on((hint) => {
      if (hint.kind === 'command' && this.#loader.peek(hint.sessionId) !== undefined) this.#poll.now()
    })
  }

  start(): void {
    this.#poll.start()
  }

  async close(): Promise<void> {
    this.#unlisten()
    await this.#poll.close()
  }

  /** Carries out a session's open commands, in their order. */
  async empty(session: LiveSession): Promise<void> {
    for (const inbox of await this.#ports.store.openCommands([session.id])) await this.#emptyOne(session, inbox)
  }

  // ---- details ----

  async #look(): Promise<void> {
    try {
      const inboxes = await this.#ports.store.openCommands()
      // Not awaited: a command that takes long must not hold up those of other sessions.
      for (const inbox of inboxes) if (!this.#busy.has(inbox.sessionId)) void this.#use(inbox)
    } catch (err) {
      this.#ports.log.debug({ err }, 'cannot read commands now; the next look is in a second')
    }
  }

  async #use(inbox: Inbox): Promise<void> {
    const { sessionId } = inbox
    this.#busy.add(sessionId)
    try {
      await this.#loader.use(sessionId, (session) => this.#emptyOne(session, inbox))
    } catch (err) {
      this.#ports.log.warn({ err, sessionId }, 'cannot carry out a command now')
    } finally {
      this.#busy.delete(sessionId)
    }
  }

  async #emptyOne(session: LiveSession, { asked, commands }: Inbox): Promise<void> {
    for (const command of commands) {
      try {
        await this.#carryOut(session, command)
      } catch (thrown) {
        if (!isFault(thrown) || thrown.category !== 'cancelled') throw thrown
        continue // withdrawn meanwhile
      }
      this.#ports.store.hints.send({ kind: 'outcome', commandId: command.id })
    }
    const isLeft = (commands.at(-1)?.nr ?? 0) < asked && !session.isLost
    if (isLeft) await session.transact(() => ({ drafts: [], seen: asked })) // the others were withdrawn
  }
}

const POLL_MS = 1_000
const POLL_MS_WITHOUT_HINTS = 100
