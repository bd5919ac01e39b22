/**
 * What daemons that share a store need from it besides journals: a lease for each daemon, hints between them, commands to the owner
 * of a session, and the runners that they know. A store of one daemon answers with `single-daemon.ts`.
 *
 * I1  No promise rests on a clock. A lease decides how soon another daemon takes over; the epoch of a session decides who may write.
 * I2  A hint may be lost, come twice or come late. A daemon that waits for a hint also polls.
 */

export type Coordination = {
  /** Connections to the database, and requests that wait for one. All zero for a file. */
  connections(): { readonly size: number; readonly free: number; readonly waiting: number }
  readonly lease: Lease
  readonly hints: Hints
  /** Undefined: the daemon has one runner, by its configuration. */
  readonly runners: RunnerRegistry | undefined
  /** The time, in milliseconds, as all daemons agree on it. */
  now(): number
  /** Asks the owner of a session for something, durably. A session without an owner is due then. A `delete` hides the session at once. */
  submit(command: NewCommand): Promise<CommandRow>
  /** Takes a command back. True: it was not, and will not be, carried out. */
  withdraw(commandId: string): Promise<boolean>
  getCommand(commandId: string): Promise<CommandRow | undefined>
  /** Of these sessions, or of all sessions that this daemon owns and that have open commands. */
  openCommands(sessionIds?: readonly string[]): Promise<readonly Inbox[]>
  /** Sessions that this daemon owns in the store. It may not know of all: the answer to a claim can get lost. */
  heldSessions(): Promise<readonly string[]>
  daemons(): Promise<readonly DaemonRow[]>
  /** Asks a daemon to hand over its sessions. False if there is none. */
  drainDaemon(bootId: string): Promise<boolean>
}

/** This daemon's right to work on sessions. It gets a new `bootId` whenever others may have declared it dead. */
export type Lease = {
  /** No other daemon shares the store: this one owns every session, always, and nothing else here has anything to say. */
  readonly isEndless: boolean
  readonly bootId: string
  readonly name: string
  /** False from shortly before the lease may run out until it is renewed: then start nothing that has an effect outside. */
  isHeld(): boolean
  /** Until when it is held at least, in milliseconds from now. Infinite if the store is not shared. */
  remainingMs(): number
  /** The daemons that live, and how many sessions they own together, as of the last renewal. */
  readonly fleet: { readonly live: number; readonly held: number }
  /** Returns a function that stops listening. */
  on(listener: (change: LeaseChange) => void): () => void
  /** Tells the others what only a daemon that listens knows. */
  announce(facts: DaemonFacts): Promise<void>
  /** Claims no more work; what it owns stays its own until it is released. */
  drain(): Promise<void>
}

/**
 * `suspend`: it may run out soon. `resume`: it was renewed, and every session is still ours. `lost`: every session may have another
 * owner; the store has, or soon gets, a new `bootId`. `drain`: a person asked this daemon to hand over its sessions.
 */
export type LeaseChange = 'suspend' | 'resume' | 'lost' | 'drain'

export type DaemonFacts = {
  readonly url?: string | undefined
  readonly configHash?: string | undefined
  /** How many turns it works on at most. */
  readonly places?: number | undefined
}

export type DaemonRow = {
  readonly bootId: string
  readonly name: string
  readonly url: string | null
  readonly version: string
  readonly configHash: string
  readonly state: 'live' | 'draining' | 'dead'
  /** In ISO 8601, as all times here. */
  readonly leaseUntil: string
  readonly held: number
  readonly places: number
  readonly startedAt: string
}

export type Hint =
  | { readonly kind: 'work' } // something is due: `claimWork`
  | { readonly kind: 'command'; readonly sessionId: string } // for its owner: `openCommands`
  | { readonly kind: 'outcome'; readonly commandId: string } // for whoever submitted it: `getCommand`
  | { readonly kind: 'events'; readonly sessionIds: readonly string[] } // sessions that this daemon watches have moved
  | { readonly kind: 'runner'; readonly runnerId: string } // its row has changed

export type Hints = {
  /** False while none arrive: then poll ten times a second. */
  readonly isUp: boolean
  /** Reaches every other daemon, at best. The store itself sends `events` after each commit. */
  send(hint: Hint): void
  /** Returns a function that stops listening. */
  on(listener: (hint: Hint) => void): () => void
  /** Asks the session's owner, whoever that is, for `events` hints until the returned function is called. */
  watch(sessionId: string): () => void
}

export type CommandKind = 'prompt' | 'cancel' | 'resume' | 'delete' | 'change' | 'approve'

/** A request for the owner of a session, by a daemon that does not own it. */
export type NewCommand = {
  readonly id: string
  readonly sessionId: string
  readonly kind: CommandKind
  /** JSON that only the daemons read. */
  readonly body: string
  /** The caller's idempotency key: a second command with this key is the first one. */
  readonly key?: string | undefined
  readonly requestHash?: string | undefined
}

export type CommandRow = NewCommand & {
  /** Counts the commands of its session: they are carried out in this order. */
  readonly nr: number
  /** Null until it is carried out or refused. */
  readonly outcome: string | null
}

/** The open commands of a session. An append that sets `seen` to `asked` says that none of them is left. */
export type Inbox = {
  readonly sessionId: string
  readonly asked: number
  readonly seen: number
  readonly commands: readonly CommandRow[]
}

/** Written with the append that carries the command out. A refusal frees its key. */
export type CommandOutcome = {
  readonly commandId: string
  readonly outcome: string
  readonly isRefused?: boolean | undefined
}

export type RunnerState = 'live' | 'draining' | 'lost'

/** A person dropped it, or it was silent for longer than the configuration allows. */
export type LostBecause = 'dropped' | 'silent'

/** What a runner says about itself. */
export type RunnerFacts = {
  readonly runnerId: string
  readonly bootId: string
  readonly url: string
  readonly capacity: number
  readonly boxes: number
  readonly labels: readonly string[]
  readonly workspaces: readonly string[]
  readonly isolation: string
  readonly version: string
  /** Two runners with the same one see the same files. */
  readonly machine: string
}

export type RunnerRow = RunnerFacts & {
  readonly state: RunnerState
  /** Why it is lost. */
  readonly lostBecause: LostBecause | null
  /** How long it has been silent, by the store's clock. */
  readonly silentMs: number
  /** When a daemon last called it back at this address. */
  readonly verifiedAt: string
  readonly lastSeen: string
}

/** A box that its runner still has although its session was deleted or has moved. */
export type LeftBox = { readonly runnerId: string; readonly boxId: string; readonly epoch: number }

export type RunnerRegistry = {
  get(runnerId: string): Promise<RunnerRow | undefined>
  list(): Promise<readonly RunnerRow[]>
  /**
   * It answered at this address: makes it known there and wakes the sessions that wait for it, or for any runner. A lost runner stays
   * lost; a new boot ends a drain.
   */
  verified(facts: RunnerFacts): Promise<RunnerRow>
  /** It lives. Undefined if its address or its boot is not the verified one. */
  seen(facts: RunnerFacts): Promise<RunnerRow | undefined>
  /** False if there is no such runner. */
  setState(runnerId: string, state: RunnerState, because?: LostBecause): Promise<boolean>
  /** Declares runners lost that have been silent for this long. Returns their ids. */
  dropSilent(afterMs: number): Promise<readonly string[]>
  /** The code is used up from now on, by this runner. False if another runner used it. */
  enroll(code: string, runnerId: string): Promise<boolean>
  leave(boxes: readonly LeftBox[]): Promise<void>
  leftBoxes(runnerId: string): Promise<readonly LeftBox[]>
  forget(boxes: readonly LeftBox[]): Promise<void>
}
