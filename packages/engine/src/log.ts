/** Where the engine reports. pino's logger is one. */
export type Log = { readonly [Level in 'debug' | 'info' | 'warn' | 'error']: (fields: object, message: string) => void }
