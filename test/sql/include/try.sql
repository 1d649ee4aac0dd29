\set ECHO none
-- Run a statement; its result, or its error with everything it says.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text; state text; message text; detail text; hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN state || ': ' || message
        || coalesce(E'\n  detail: ' || nullif(detail, ''), '')
        || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END $$;
-- The same, or its SQLSTATE and message, without the claim's id.
CREATE FUNCTION pg_temp.try_briefly(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, '[0-9a-f]{8}-[0-9a-f-]{27}', 'ID');
END $$;
\set ECHO all
