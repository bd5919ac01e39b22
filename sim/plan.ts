/**
 * A plan says everything about a universe before it starts: its daemons, its people, and what goes wrong when. A seed only makes a
 * plan; shrinking takes parts of it away.
 *
 * Swarm: the seed first picks which kinds of faults there are at all and how often. Many universes have few kinds, and go deep. Some
 * have a theme: what hurts most together, and is rare by chance.
 */
import { Random } from './host/random.ts'
import type { Fate } from './world/network.ts'

export type FaultKind =
  | 'kill' // the daemon dies; a new one starts in its folder after `ms`
  | 'stop' // it stops in good order, hands its turns over, and starts again after `ms`
  | 'drain' // a person asks it to hand its sessions over; it stops after `ms`
  | 'freeze' // its machine stands still
  | 'slow' // each of its events takes a while
  | 'stall' // its event loop is blocked; the thread that renews its lease is not
  | 'partition' // the daemon cannot reach the database
  | 'cut-runner' // the daemon cannot reach the runner
  | 'skew' // its wall clock is off
  | 'database-down'
  | 'runner-kill' // the runner's process dies; commands run on
  | 'runner-machine' // its machine restarts: commands are lost
  | 'model-down' // refuses connections
  | 'model-hole' // swallows packets

export type PlannedFault = {
  readonly at: number
  readonly kind: FaultKind
  /** Which daemon. */
  readonly victim: number
  readonly ms: number
}

export type PlannedStep = {
  /** Undefined: `bash`. */
  readonly tool?: 'bash' | 'write' | 'edit'
  readonly lines: number
  readonly ms: number
  readonly code: number
  readonly calls: number
}

export type PlannedTurn = {
  readonly key: string
  readonly at: number
  readonly steps: readonly PlannedStep[]
  /** What the person does when a call waits for approval; `never`: nothing. */
  readonly answer: 'allow' | 'deny' | 'allow_session' | 'never'
  readonly answerMs: number
  readonly cancelAt: number | null
  /** The same request goes to two daemons at once. */
  readonly isTwice?: boolean
}

export type PlannedSession = {
  readonly name: string
  readonly approve: 'never' | 'always'
  readonly turns: readonly PlannedTurn[]
}

/** What becomes of one request to the runner, whatever the seed says. */
export type PlannedMessage = {
  /** As `kindOf` names it. */
  readonly request: string
  /** Which one of these, from 1 on. */
  readonly nr: number
  readonly fate: Fate
}

export type Person = { readonly at: number; readonly session: number }

/** A prompt that is sent once: whatever the answer is, it is final. */
export type Aside = Person & { readonly key: string; readonly isQueued?: boolean }

export type Plan = {
  readonly seed: string
  /** One daemon with its own store, or several that share one. */
  readonly isShared: boolean
  readonly daemons: number
  readonly sessions: readonly PlannedSession[]
  readonly faults: readonly PlannedFault[]
  /** When they press resume. */
  readonly resumes: readonly Person[]
  readonly asides: readonly Aside[]
  /** When they cancel whatever turn a session has then. */
  readonly quits: readonly Person[]
  /** When they delete a session, perhaps during a turn. */
  readonly deletes: readonly Person[]
  /** Shares of messages to which this happens, from 0 to 1. */
  readonly rates: {
    readonly lostStatement: number
    readonly lostStatementAnswer: number
    readonly lostHint: number
    readonly lostRequest: number
    readonly lostAnswer: number
    readonly lateRequest: number
    /** They arrive when their box has a newer owner, and their sender waits for the answer all the time. */
    readonly silentRequest: number
    readonly cutStream: number
    readonly modelFault: number
    /** Of commits after which the daemon dies before it hears of it. */
    readonly killAtCommit: number
    /** Of commits after which its event loop stalls, for longer than its lease. */
    readonly stallAtCommit: number
  }
  readonly messages: readonly PlannedMessage[]
  /** All messages take equally long, the model says the same each time, and no daemon jitters: few dice are left. */
  readonly isEven: boolean
  /** When faults end. Then everything must come to rest. */
  readonly calmAt: number
  /** From then on no daemon lives for this long. */
  readonly absenceMs: number
  readonly parkMsMax: number
  readonly approveMsMax: number
  /** So many sessions without work stay in a daemon's memory. */
  readonly sessionsIdleMax: number
  /** Boxes of idle sessions are given back after so long. */
  readonly boxIdleMs: number
}

/** A saved plan, perhaps of a version that knew fewer people. */
export const planIn = (json: string): Plan => {
  const plan: Plan = JSON.parse(json)
  return {
    ...plan,
    rates: { ...NO_RATES, ...plan.rates },
    messages: plan.messages ?? [],
    isEven: plan.isEven ?? false,
    asides: plan.asides ?? [],
    quits: plan.quits ?? [],
    deletes: plan.deletes ?? [],
    sessionsIdleMax: plan.sessionsIdleMax ?? SESSIONS_IDLE_MAX,
    boxIdleMs: plan.boxIdleMs ?? BOX_IDLE_MS,
  }
}

/** Short enough to happen within the minutes of a universe. */
export const POLICY = {
  livenessMs: 20_000,
  progressMs: 60_000,
  headersMs: 20_000,
  patienceMs: 20_000,
} as const

export function planOf(seed: string): Plan {
  const theme = new Random(seed, 'theme').next()
  const plan = swarmOf(seed)
  if (theme < THEMES.kills) return withKills(plan, new Random(seed, 'kills'))
  if (theme < THEMES.quits) return withQuits(plan, new Random(seed, 'quits'))
  if (theme < THEMES.asides) return withAsides(plan, new Random(seed, 'asides'))
  if (theme < THEMES.files) return withFiles(plan, new Random(seed, 'files'))
  return theme < THEMES.model ? { ...plan, rates: { ...plan.rates, modelFault: 0.95 } } : plan
}

// ---- details ----

/** Each theme's share of all plans ends here. */
const THEMES = { kills: 0.1, quits: 0.2, asides: 0.25, files: 0.33, model: 0.37 } as const

/** Owners change all the time, and requests of earlier ones arrive late. */
function withKills(plan: Plan, dice: Random): Plan {
  const daemons = 3
  const isFrozen = dice.chance(0.4)
  const late = isFrozen ? { silentRequest: 0.6 } : { lateRequest: 0.5, lostStatement: dice.of([0, 0.1]) }
  return {
    ...plan,
    isShared: true,
    daemons,
    absenceMs: 0,
    resumes: [],
    deletes: [],
    rates: { ...NO_RATES, ...late, ...(isFrozen ? {} : dice.of(AT_COMMITS)) },
    sessions: plan.sessions.map((session) => ({ ...session, approve: 'never', turns: session.turns.map(withSteps) })),
    faults: isFrozen ? freezesOf(dice, daemons, plan.calmAt) : killsOf(dice, daemons, plan.calmAt),
  }
}

/** People prompt all the time, once, while the owners of sessions stand still for longer than anyone waits. */
function withAsides(plan: Plan, dice: Random): Plan {
  const daemons = 3
  return {
    ...plan,
    isShared: true,
    daemons,
    absenceMs: 0,
    rates: NO_RATES,
    deletes: [],
    asides: Array.from({ length: 60 }, (_, nr) => ({
      at: dice.whole(1_000, plan.calmAt),
      session: dice.whole(0, 3),
      key: `aside.${nr + 1}`,
      isQueued: true,
    })),
    faults: Array.from({ length: 12 }, () => ({
      at: dice.whole(1_000, plan.calmAt),
      kind: dice.of(['freeze', 'stall', 'partition'] as const),
      victim: dice.whole(0, daemons - 1),
      ms: dice.of([12_000, 25_000]),
    })).toSorted((a, b) => a.at - b.at),
  }
}

const AT_COMMITS = [{}, { killAtCommit: 0.1 }, { stallAtCommit: 0.04 }] as const

/** People cancel all the time: at daemons that die, or while requests to the runner arrive late. */
function withQuits(plan: Plan, dice: Random): Plan {
  const isLate = dice.chance(0.5)
  const session = (): number => dice.whole(0, 3)
  return {
    ...plan,
    isShared: false,
    daemons: 1,
    absenceMs: 0,
    rates: isLate
      ? { ...NO_RATES, lateRequest: 0.3, silentRequest: dice.of([0, 0.1]) }
      : { ...plan.rates, ...OF_SHARED, lateRequest: 0 },
    sessions: plan.sessions.map((one) => (isLate ? { ...one, turns: one.turns.map(workOf(dice)) } : one)),
    quits: Array.from({ length: 60 }, () => ({ at: dice.whole(1_000, plan.calmAt), session: session() })),
    faults: isLate ? [] : killsOf(dice, 1, plan.calmAt),
  }
}

/** Files change all the time, while requests of earlier moments and earlier owners arrive. */
function withFiles(plan: Plan, dice: Random): Plan {
  const daemons = plan.isShared ? 2 : 1
  return {
    ...plan,
    daemons,
    absenceMs: 0,
    rates: {
      ...NO_RATES,
      lateRequest: dice.of([0.2, 0.5]),
      lostAnswer: dice.of([0, 0.3]),
      killAtCommit: dice.of([0, 0.2]),
    },
    sessions: plan.sessions.map((session) => ({ ...session, turns: session.turns.map(withChanges(dice)) })),
    faults: dice.chance(0.5) ? killsOf(dice, daemons, plan.calmAt) : [],
  }
}

/** One session runs commands, another changes files. */
const workOf = (dice: Random): ((turn: PlannedTurn) => PlannedTurn) =>
  dice.chance(0.5) ? withSteps : withChanges(dice)

const withChanges =
  (dice: Random) =>
  (turn: PlannedTurn): PlannedTurn => ({
    ...turn,
    steps: Array.from({ length: 3 }, () => ({
      tool: dice.of(['write', 'edit'] as const),
      lines: 0,
      ms: 0,
      code: 0,
      calls: dice.whole(1, 2),
    })),
  })

const withSteps = (turn: PlannedTurn): PlannedTurn => ({
  ...turn,
  steps: [2_000, 2_000, 300].map((ms) => ({ lines: 1, ms, code: 0, calls: ms < 1_000 ? 2 : 1 })),
})

const killsOf = (dice: Random, daemons: number, calmAt: number): readonly PlannedFault[] =>
  Array.from({ length: 25 }, () => ({
    at: dice.whole(1_000, calmAt),
    kind: 'kill' as const,
    victim: dice.whole(0, daemons - 1),
    ms: dice.of([50, 1_000]),
  })).toSorted((a, b) => a.at - b.at)

/** Longer than a lease, and shorter than the runner's client waits for an answer. */
const freezesOf = (dice: Random, daemons: number, calmAt: number): readonly PlannedFault[] =>
  Array.from({ length: 8 }, () => ({
    at: dice.whole(1_000, calmAt),
    kind: 'freeze' as const,
    victim: dice.whole(0, daemons - 1),
    ms: dice.whole(20_000, 28_000),
  })).toSorted((a, b) => a.at - b.at)

const OF_SHARED = { lostStatement: 0, lostStatementAnswer: 0, lostHint: 0 } as const
const NO_RATES: Plan['rates'] = {
  ...OF_SHARED,
  lostRequest: 0,
  lostAnswer: 0,
  lateRequest: 0,
  silentRequest: 0,
  cutStream: 0,
  modelFault: 0,
  killAtCommit: 0,
  stallAtCommit: 0,
}

function swarmOf(seed: string): Plan {
  const dice = new Random(seed, 'plan')
  const isShared = dice.chance(0.7)
  const daemons = isShared ? dice.whole(1, 3) : 1
  const calmAt = dice.of([60_000, 60_000, 180_000])
  const some = (share: number, most: number): number => (dice.chance(share) ? dice.next() * most : 0)
  return {
    seed,
    isShared,
    daemons,
    calmAt,
    absenceMs: dice.chance(0.1) ? 8 * 24 * 3_600_000 : 0,
    parkMsMax: 1_800_000,
    approveMsMax: dice.of([20_000, 120_000, 600_000]),
    sessionsIdleMax: dice.of([0, 1, SESSIONS_IDLE_MAX]),
    boxIdleMs: dice.of([1_000, 5_000, BOX_IDLE_MS]),
    rates: {
      lostStatement: isShared ? some(0.4, 0.05) : 0,
      lostStatementAnswer: isShared ? some(0.4, 0.1) : 0,
      lostHint: isShared ? some(0.5, 0.8) : 0,
      lostRequest: some(0.4, 0.1),
      lostAnswer: some(0.5, 0.4),
      lateRequest: some(0.5, 0.9),
      silentRequest: some(0.2, 0.1),
      cutStream: some(0.5, 0.3),
      modelFault: some(0.6, 0.5),
      killAtCommit: some(0.15, 0.1),
      stallAtCommit: some(0.1, 0.02),
    },
    sessions: Array.from({ length: dice.whole(1, 4) }, (_, nr) => sessionOf(dice, `s${nr + 1}`, calmAt)),
    faults: faultsOf(dice, { isShared, daemons, calmAt }),
    messages: [],
    isEven: false,
    resumes: dice.chance(0.5)
      ? Array.from({ length: dice.whole(1, 40) }, () => ({ at: dice.whole(1_000, calmAt), session: dice.whole(0, 3) }))
      : [],
    asides: dice.chance(0.5)
      ? Array.from({ length: dice.whole(1, 12) }, (_, nr) => ({
          at: dice.whole(1_000, calmAt),
          session: dice.whole(0, 3),
          key: `aside.${nr + 1}`,
        }))
      : [],
    quits: dice.chance(0.4)
      ? Array.from({ length: dice.whole(1, 6) }, () => ({ at: dice.whole(1_000, calmAt), session: dice.whole(0, 3) }))
      : [],
    deletes: dice.chance(0.15) ? [{ at: dice.whole(1_000, calmAt), session: dice.whole(0, 3) }] : [],
  }
}

function sessionOf(dice: Random, name: string, calmAt: number): PlannedSession {
  const approve = dice.chance(0.25) ? 'always' : 'never'
  const tools = dice.of(TOOLS)
  const turns = Array.from({ length: dice.whole(1, 3) }, (_, nr): PlannedTurn => {
    const at = dice.whole(0, calmAt / 2)
    return {
      key: `${name}.t${nr + 1}`,
      at,
      steps: Array.from({ length: dice.whole(0, 3) }, () => ({
        tool: dice.of(tools),
        lines: dice.whole(0, 5),
        ms: dice.of([0, 5, 300, 2_000, 15_000]),
        code: dice.chance(0.1) ? 1 : 0,
        calls: dice.chance(0.2) ? 2 : 1,
      })),
      answer: dice.of(['allow', 'allow', 'allow_session', 'deny', 'never'] as const),
      answerMs: dice.of([500, 5_000, 60_000]),
      cancelAt: dice.chance(0.15) ? at + dice.whole(0, 20_000) : null,
      isTwice: dice.chance(0.1),
    }
  })
  return { name, approve, turns }
}

function faultsOf(
  dice: Random,
  { isShared, daemons, calmAt }: { readonly isShared: boolean; readonly daemons: number; readonly calmAt: number },
): readonly PlannedFault[] {
  const kinds = (Object.keys(LENGTHS) as FaultKind[]).filter(
    (kind) => (isShared || !SHARED_ONLY.has(kind)) && dice.chance(0.4),
  )
  if (kinds.length === 0) return []
  return Array.from({ length: dice.whole(1, calmAt / dice.of(MS_PER_FAULT)) }, () => {
    const kind = dice.of(kinds)
    return { at: dice.whole(500, calmAt), kind, victim: dice.whole(0, daemons - 1), ms: dice.of(LENGTHS[kind]) }
  }).toSorted((a, b) => a.at - b.at)
}

/** What a session works with: commands, files or both. */
const TOOLS = [['bash'], ['bash'], ['bash', 'write', 'edit']] as const

const SESSIONS_IDLE_MAX = 2_000
const BOX_IDLE_MS = 900_000

/** At most one fault in this time, on average: in some universes nothing stays whole for long. */
const MS_PER_FAULT = [600, 1_200, 2_400] as const

/** How long each lasts. */
const LENGTHS: Readonly<Record<FaultKind, readonly number[]>> = {
  kill: [50, 1_000, 20_000],
  stop: [50, 1_000, 20_000],
  drain: [5_000, 20_000],
  slow: [5_000, 60_000],
  stall: [500, 8_000, 25_000],
  freeze: [200, 7_000, 25_000],
  partition: [500, 6_000, 25_000],
  'cut-runner': [500, 6_000, 40_000],
  skew: [5_000, 30_000],
  'database-down': [300, 6_000, 20_000],
  'runner-kill': [100, 3_000, 20_000],
  'runner-machine': [1_000, 10_000],
  'model-down': [500, 6_000, 50_000],
  'model-hole': [2_000, 12_000, 90_000],
}

/** A file on its own machine cannot be cut off or go down alone. */
const SHARED_ONLY: ReadonlySet<FaultKind> = new Set(['partition', 'database-down', 'drain'])
