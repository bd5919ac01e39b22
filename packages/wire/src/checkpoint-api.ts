/** Checkpoints of a box's workspace, and restoring them: at the runner, and as undo at the daemon. */
import { z } from 'zod'
import { body, flag, integer, record, text, time } from './fields.ts'

export const CHECKPOINT_MODES = ['auto', 'manual', 'off'] as const
export type CheckpointMode = (typeof CHECKPOINT_MODES)[number]

export const checkpointCreateSchema = body({
  label: text(200, 'a label').optional(),
  limitMs: integer(100, 600_000).optional().describe('give up after this long, and list it as skipped; default 300000'),
})
export type CheckpointCreate = z.infer<typeof checkpointCreateSchema>

export const checkpointSchema = record({
  id: z.string(),
  at: time,
  label: z.string().nullable(),
  kind: z.enum(['taken', 'safety']).describe('safety: taken before a restore; restoring it is the redo'),
  files: z.int(),
  bytes: z.int(),
  tookMs: z.int(),
  during: z.array(z.string()).readonly().describe('execs that ran meanwhile: it may hold some of their changes'),
  left: z
    .array(record({ path: z.string(), because: z.string() }))
    .readonly()
    .describe('what it does not hold; at most 50 entries'),
})
export type Checkpoint = z.infer<typeof checkpointSchema>

const skippedSchema = record({ at: time, label: z.string().nullable(), because: z.string() })

export const checkpointListSchema = record({
  checkpoints: z.array(checkpointSchema).readonly().describe('oldest first'),
  skipped: z.array(skippedSchema).readonly().describe('the newest that could not be taken'),
  bytes: z.int().describe('what the store takes on disk'),
})
export type CheckpointList = z.infer<typeof checkpointListSchema>

const fileChangeSchema = record({
  path: z.string(),
  change: z.enum(['added', 'changed', 'removed']),
  bytes: z.int().describe('of the file afterwards'),
})

export const checkpointDiffSchema = record({ files: z.array(fileChangeSchema).readonly() })
export type CheckpointDiff = z.infer<typeof checkpointDiffSchema>

const paths = z
  .array(text(4096, 'a path'), { error: 'a list of paths' })
  .min(1, { error: 'a list with at least one path' })
  .max(1_000, { error: 'a list of at most 1000 paths' })
  .optional()
  .describe('only these files, and what is below these folders')

const restoreShape = {
  paths,
  dryRun: flag().optional().describe('only say what it would do'),
  force: flag().optional().describe('also overwrite files that changed outside the box'),
}

export const restoreRequestSchema = body(restoreShape)
export type RestoreRequest = z.infer<typeof restoreRequestSchema>

const restoredShape = {
  restored: z.int().describe('files written, or whose permissions changed'),
  removed: z.int(),
  safety: z
    .string()
    .nullable()
    .describe('the checkpoint that undoes this; null after a dry run, or if nothing differed'),
  files: z.array(fileChangeSchema).readonly().describe('at most 1000'),
  conflicts: z.array(z.string()).readonly().describe('with dryRun: what would need force'),
  skipped: z
    .array(record({ path: z.string(), because: z.string() }))
    .readonly()
    .describe('left as they are'),
}

export const restoredSchema = record(restoredShape)
export type Restored = z.infer<typeof restoredSchema>

// ---- at the daemon ----

export const undoSchema = body({
  toTurn: text(200, 'the id of a turn')
    .optional()
    .describe('back to before this turn; default: the last one with a checkpoint'),
  checkpoint: text(200, 'the id of a checkpoint')
    .optional()
    .describe('back to this checkpoint; with the safety of an undo, this is the redo'),
  ...restoreShape,
}).refine(({ toTurn, checkpoint }) => toTurn === undefined || checkpoint === undefined, {
  path: ['checkpoint'],
  error: 'either toTurn or checkpoint',
})
export type Undo = z.infer<typeof undoSchema>

export const undoneSchema = record({
  ...restoredShape,
  checkpoint: z.string(),
  turnId: z.string().nullable().describe('the turn before which the checkpoint was taken'),
})
export type Undone = z.infer<typeof undoneSchema>

export const sessionCheckpointSchema = checkpointSchema.extend({
  turnId: z.string().nullable().describe('taken before the first writing step of this turn'),
})
export const sessionCheckpointsSchema = record({
  mode: z.enum(CHECKPOINT_MODES),
  checkpoints: z.array(sessionCheckpointSchema).readonly().describe('oldest first'),
  skipped: z.array(skippedSchema.extend({ turnId: z.string().nullable() })).readonly(),
  bytes: z.int(),
})
export type SessionCheckpoints = z.infer<typeof sessionCheckpointsSchema>
