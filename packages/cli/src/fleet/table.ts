/** The live table of a fleet. Pure: values in, lines out. */
import { shortened, tableOf } from '../render/table.ts'

export type MemberView = {
  readonly name: string
  readonly pid: number | null
  /** As its process and the store say. */
  readonly state: string
  readonly detail: string
}

export type TurnLine = {
  readonly nr: number
  readonly state: string
  readonly owner: string
  readonly epoch: string
  readonly runner: string
  readonly steps: string
  readonly takeovers: number
}

export type FleetView = {
  readonly url: string
  readonly database: string
  readonly daemons: readonly MemberView[]
  readonly runners: readonly MemberView[]
  readonly turns: readonly TurnLine[]
  readonly note: string
}

export function tableLines(view: FleetView, columns: number): readonly string[] {
  const members = [...view.daemons, ...view.runners].map(({ name, pid, state, detail }) => [
    name,
    pid === null ? '-' : String(pid),
    state,
    detail,
  ])
  const turns = view.turns.map(({ nr, state, owner, epoch, runner, steps, takeovers }) => [
    String(nr),
    state,
    owner,
    epoch,
    runner,
    steps,
    takeovers === 0 ? '' : String(takeovers),
  ])
  const lines = [
    `front door ${view.url}   PostgreSQL ${view.database}`,
    '',
    ...tableOf([['', 'pid', 'state', ''], ...members]),
    '',
    ...tableOf([['turn', 'state', 'owner', 'epoch', 'runner', 'steps', 'taken over'], ...turns]),
    '',
    view.note,
  ]
  return lines.map((line) => shortened(line, columns))
}
