/** Values on their way into the database and back. */
import type { SessionData } from '../../rows.ts'

/** Others are no ids of ours: they are not found, rather than refused by the database. */
export const isUuid = (id: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)

/** No name of ours has a NUL, and the database refuses to look for one. */
export const isText = (name: string): boolean => !name.includes('\0')

/** PostgreSQL's text has neither NUL nor half a character. */
export const clean = (text: string | null): string | null => text?.toWellFormed().replaceAll('\0', '') ?? null

/** From hexadecimal. */
export const bytea = (hex: string): string => `\\x${hex}`

/** What a session is searched by, beside its data. */
export function searchable({
  title,
  box,
}: SessionData): Readonly<Record<'boxId' | 'title' | 'workspace', string | null>> {
  return { boxId: clean(box.id ?? null), title: clean(title ?? ''), workspace: clean(box.workspace ?? null) }
}
