/** The box that a session may have at its runner, as it is listed for removal. Pure. */
import type { SessionRow } from '../rows.ts'

export type BoxRemoval = { readonly boxId: string; readonly runnerId: string; readonly epoch: number }

/** A box may exist as soon as its runner is known, even if its creation was never recorded. */
export const boxesOf = ({ id, epoch, data }: SessionRow): readonly BoxRemoval[] =>
  data.runnerId === null ? [] : [{ boxId: data.box.id ?? id, runnerId: data.runnerId, epoch: epoch + 1 }]
