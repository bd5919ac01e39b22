/** Reads the journal on disk. A separate entry, because a reader needs none of the daemon's servers and starts three times as fast. */
export { selectionOf } from './service/session-selection.ts'
export { type JournalReader, readJournal } from './store/sqlite-reader.ts'
