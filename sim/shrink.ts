/**
 * Makes a failing plan small: takes parts away as long as the same rule breaks. Faults and requests that break first, in halves and
 * then one by one, then sessions, turns, steps and daemons, then the rates at which other messages break.
 */
import type { Plan, PlannedSession } from './plan.ts'
import type { BrokenRule } from './rules/facts.ts'

export type Shrunk = { readonly plan: Plan; readonly broken: BrokenRule; readonly tries: number }

export async function shrink(
  plan: Plan,
  broken: BrokenRule,
  run: (plan: Plan) => Promise<BrokenRule | undefined>,
  messages: Plan['messages'],
  limits: { readonly triesMax: number; readonly ms: number } = { triesMax: 300, ms: 20_000 },
): Promise<Shrunk> {
  const from = process.cpuUsage() // a busy machine shrinks as far as an idle one
  const isLate = (): boolean => {
    const { user, system } = process.cpuUsage(from)
    return (user + system) / 1_000 > limits.ms
  }
  let best: Shrunk = { plan, broken, tries: 0 }
  let tries = 0
  const attempt = async (smaller: Plan): Promise<boolean> => {
    if (tries >= limits.triesMax || isLate()) return false
    tries += 1
    const still = await run(smaller)
    if (still?.rule !== broken.rule) return false
    best = { plan: smaller, broken: still, tries }
    return true
  }
  await attempt({ ...plan, rates: { ...plan.rates, ...WITHOUT_DICE }, messages })
  for (let isSmaller = true; isSmaller;) {
    isSmaller = false
    for (const smaller of smallerPlans(() => best.plan)) {
      if (tries >= limits.triesMax || isLate()) break
      if (await attempt(smaller)) isSmaller = true
    }
  }
  return { ...best, tries }
}

// ---- details ----

/** Whatever becomes of a request is in the plan then: it stays true when the dice of a later version fall otherwise. */
const WITHOUT_DICE = { lostRequest: 0, lostAnswer: 0, lateRequest: 0, silentRequest: 0, cutStream: 0 } as const

/** Ideas for smaller plans, largest cuts first; each is made from the best plan so far. */
function* smallerPlans(best: () => Plan): Generator<Plan> {
  if (!best().isEven) yield { ...best(), isEven: true }
  for (const part of ['faults', 'messages', 'resumes', 'asides', 'quits', 'deletes', 'sessions'] as const) {
    for (let size = Math.ceil(best()[part].length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let at = 0; at < best()[part].length; at += size) {
        const plan = best()
        const left = plan[part].toSpliced(at, size)
        if (part !== 'sessions' || left.length > 0) yield { ...plan, [part]: left }
      }
    }
  }
  for (let at = 0; at < best().sessions.length; at += 1) yield* smallerSessions(best, at)
  if (best().absenceMs > 0) yield { ...best(), absenceMs: 0 }
  for (const daemons of [1, 2])
    if (daemons < best().daemons) yield { ...best(), daemons, faults: within(best(), daemons) }
  for (const rate of Object.keys(best().rates))
    if (best().rates[rate as keyof Plan['rates']] > 0) yield { ...best(), rates: { ...best().rates, [rate]: 0 } }
}

function* smallerSessions(best: () => Plan, at: number): Generator<Plan> {
  const with_ = (change: (session: PlannedSession) => PlannedSession): Plan => {
    const plan = best()
    return { ...plan, sessions: plan.sessions.map((session, nr) => (nr === at ? change(session) : session)) }
  }
  const session = (): PlannedSession | undefined => best().sessions[at]
  for (let turn = (session()?.turns.length ?? 0) - 1; turn >= 0; turn -= 1) {
    if ((session()?.turns.length ?? 0) > 1) yield with_((each) => ({ ...each, turns: each.turns.toSpliced(turn, 1) }))
  }
  for (let turn = 0; turn < (session()?.turns.length ?? 0); turn += 1) {
    const change = (fields: object): Plan =>
      with_((each) => ({ ...each, turns: each.turns.map((one, nr) => (nr === turn ? { ...one, ...fields } : one)) }))
    const steps = session()?.turns[turn]?.steps ?? []
    for (let step = steps.length - 1; step >= 0; step -= 1) yield change({ steps: steps.toSpliced(step, 1) })
    if (steps.some(({ lines, calls }) => lines > 1 || calls > 1))
      yield change({ steps: steps.map((one) => ({ ...one, lines: 1, calls: 1 })) })
    if (session()?.turns[turn]?.isTwice === true) yield change({ isTwice: false })
    if (session()?.turns[turn]?.cancelAt !== null) yield change({ cancelAt: null })
    if (session()?.turns[turn]?.at !== 0) yield change({ at: 0 })
  }
}

const within = (plan: Plan, daemons: number): Plan['faults'] => plan.faults.filter(({ victim }) => victim < daemons)
