/** Values on their way into the database and back. */

/** Others are no ids of ours: they are not found, rather than refused by the database. */
export const isUuid = (id: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)

/** A column that this store wrote itself, as JSON of `T`. SQL's NULL is null. */
export const json = <T>(text: string | null): T => JSON.parse(text ?? 'null')
